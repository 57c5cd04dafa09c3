"""Own which topics are subscribed, so that nothing is packed for a process that nobody watches. Pure.

Topics are matched by prefix, as ZeroMQ does it. When a connection ends, libzmq names its topics, refused ones
too, and not the connection: so nothing follows from such a word but that those which are gone are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from execzmq.settings import MAX_TOPICS

_MOST_VERDICTS = 4096
"""Processes of which it is remembered whether somebody watches them; most of them have ended."""


C = TypeVar("C", bound=Hashable)


class Interest(Generic[C]):
    """The admitted subscriptions of each connection."""

    def __init__(self) -> None:
        self._holders: dict[bytes, int] = {}
        self._lengths: dict[int, int] = {}
        self._deep: dict[bytes, int] = {}
        self._of_connection: dict[C, set[bytes]] = {}
        self._refused: dict[C, int] = {}
        self._verdicts: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def has_room(self, connection: C) -> bool:
        """Tell whether this connection may have one more subscription."""
        return len(self._of_connection.get(connection, ())) < MAX_TOPICS

    def add(self, topic: bytes, connection: C) -> None:
        """Note an admitted subscription; for libzmq a second one of the same connection is none."""
        topics = self._of_connection.setdefault(connection, set())
        if topic not in topics:
            topics.add(topic)
            self._count(topic, 1)

    def remove(self, topic: bytes, connection: C | None) -> None:
        """Note the end of a subscription; one that this connection does not have changes nothing."""
        topics = self._of_connection.get(connection) if connection is not None else None
        if connection is None or topics is None or topic not in topics:
            return
        topics.remove(topic)
        if not topics:
            del self._of_connection[connection]
        self._count(topic, -1)

    def refused(self, connection: C) -> bool:
        """Count a subscription that was refused; return whether there were so many that no more is due.

        libzmq keeps each of them for as long as the connection lives.
        """
        _add(self._refused, connection, 1)
        return self._refused[connection] > MAX_TOPICS

    def sweep(self, is_alive: Callable[[C], bool]) -> None:
        """Note the end of every subscription of connections that have ended."""
        for connection in [one for one in self._of_connection if not is_alive(one)]:
            for topic in self._of_connection.pop(connection):
                self._count(topic, -1)
        for connection in [one for one in self._refused if not is_alive(one)]:
            del self._refused[connection]

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

    def family(self, process_id: str) -> str | None:
        """Return the part of an id, up to its last `-`, by which all who watch the process watch its kin too.

        `None` where the id has no such part or somebody watches by more of the id than that.
        """
        prefix = process_id[: process_id.rfind("-") + 1]
        base = f"p.{process_id}.".encode()
        shared = len(prefix) + 2
        if (
            not prefix
            or base in self._deep
            or any(base[:n] in self._holders for n in self._lengths if n > shared)
        ):
            return None
        return prefix

    def _count(self, topic: bytes, by: int) -> None:
        _add(self._holders, topic, by)
        _add(self._lengths, len(topic), by)
        base = _base(topic)
        if base is not None:
            _add(self._deep, base, by)
        self._verdicts.clear()


def _base(topic: bytes) -> bytes | None:
    """Return `p.<process_id>.` of a topic that goes beyond it."""
    end = topic.find(b".", 2)
    return topic[: end + 1] if topic.startswith(b"p.") and 0 < end < len(topic) - 1 else None


_Key = TypeVar("_Key")


def _add(counts: dict[_Key, int], key: _Key, by: int) -> None:
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]
