"""Own which topics are subscribed, so that nothing is packed for a process that nobody watches. Pure.

Topics are matched by prefix, as ZeroMQ does it. Connections are told apart by their descriptor; libzmq does
not name it when a connection ends, so such an end is booked to any connection that has the topic.
"""

from __future__ import annotations

from typing import TypeVar

from execzmq.settings import MAX_TOPICS

_MOST_VERDICTS = 4096
"""Processes of which it is remembered whether somebody watches them; most of them have ended."""


class Interest:
    """Counts of admitted subscriptions."""

    def __init__(self) -> None:
        self._holders: dict[bytes, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._deep: dict[bytes, int] = {}
        self._per_connection: dict[int, int] = {}
        self._verdicts: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def has_room(self, connection: int) -> bool:
        """Tell whether this connection may have one more subscription."""
        return self._per_connection.get(connection, 0) < MAX_TOPICS

    def add(self, topic: bytes, connection: int) -> None:
        """Note an admitted subscription."""
        self._holders.setdefault(topic, []).append(connection)
        _increment(self._per_connection, connection)
        _increment(self._lengths, len(topic))
        base = _base(topic)
        if base is not None:
            _increment(self._deep, base)
        self._verdicts.clear()

    def remove(self, topic: bytes, connection: int | None) -> None:
        """Note the end of a subscription; one that was never admitted changes nothing."""
        holders = self._holders.get(topic)
        if not holders:
            return
        holder = connection if connection in holders else holders[-1]
        assert holder is not None
        holders.remove(holder)
        if not holders:
            del self._holders[topic]
        _decrement(self._per_connection, holder)
        _decrement(self._lengths, len(topic))
        base = _base(topic)
        if base is not None:
            _decrement(self._deep, base)
        self._verdicts.clear()

    def watches(self, process_id: str) -> bool:
        """Tell whether any message about this process would reach somebody."""
        verdict = self._verdicts.get(process_id)
        if verdict is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            base = f"p.{process_id}.".encode()
            verdict = base in self._deep or any(base[:n] in self._holders for n in self._lengths)
            self._verdicts[process_id] = verdict
        return verdict


def _base(topic: bytes) -> bytes | None:
    """Return `p.<process_id>.` of a topic that goes beyond it."""
    end = topic.find(b".", 2)
    return topic[: end + 1] if topic.startswith(b"p.") and 0 < end < len(topic) - 1 else None


_Key = TypeVar("_Key")


def _increment(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] = counts.get(key, 0) + 1


def _decrement(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
