"""Own what is broadcast: each event after it stands in the log, whole or as `behind`, and the tails after it.

A broadcast is a hint; the log is the truth. Nothing is packed for a process that nobody watches, and nothing
waits for a slow watcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from execzmq.process.index import Record
from execzmq.process.managed import ManagedProcess
from execzmq.protocol.wire import Codec
from execzmq.server.interest import Interest
from execzmq.server.tails import Tail, Tails
from execzmq.server.views import hides_something
from execzmq.settings import LIVE_EVENT, LIVE_INTERVAL, LIVE_RATE

Send = Callable[[list[Any]], object]

_WINDOW = int(LIVE_RATE * LIVE_INTERVAL)
_MOST_TAILS = 1000
"""Tails in one message."""


@dataclass(slots=True)
class Pace:
    """How fast one process writes, judged over `LIVE_INTERVAL`; and what was announced but not carried."""

    window_start: float = 0.0
    window_bytes: int = 0
    is_fast: bool = False
    announced_at: float = 0.0
    unannounced: Record | None = None
    timer: asyncio.TimerHandle | None = None

    def carries(self, length: int, now: float) -> bool:
        """Count an output event; return whether it may be broadcast whole."""
        if now - self.window_start >= LIVE_INTERVAL:
            recent = now - self.window_start < 2 * LIVE_INTERVAL
            self.is_fast = recent and self.window_bytes > _WINDOW
            self.window_start, self.window_bytes = now, 0
        self.window_bytes += length
        return length <= LIVE_EVENT and not self.is_fast and self.window_bytes <= _WINDOW


class Publisher:
    """Broadcasts the events of all processes.

    Args:
        codec: writes the messages.
        send: sends frames, topic first, without ever blocking.
        interest: who watches what.
        clock: monotonic seconds.
        is_observed: tells whether somebody may watch a process who must not be told all of it.
    """

    def __init__(
        self,
        codec: Codec,
        send: Send,
        interest: Interest[Any],
        clock: Callable[[], float],
        is_observed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._codec = codec
        self._send = send
        self._interest = interest
        self._clock = clock
        self._is_observed = is_observed
        self._loop = asyncio.get_running_loop()
        self._paces: dict[str, Pace] = {}
        self._tails = Tails(self._repeat, clock)
        self.sent = 0

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """Broadcast an event that stands in the log."""
        now = self._clock()
        self._tails.expect(process, now)
        if not self._interest.watches(process.process_id):
            return
        if record.kind == "output":
            self._output(process, record, now)
        else:
            self._whole(process, record, payload)

    def ended(self, process: ManagedProcess) -> None:
        """Announce what was not carried yet; nothing but tails follows."""
        pace = self._paces.pop(process.process_id, None)
        if pace is not None and pace.timer is not None:
            pace.timer.cancel()

    def paused(self, process: ManagedProcess) -> None:
        """Tell a starter that its command waits until it says how far it has come."""
        record = process.last_output
        if record is not None and self._interest.watches(process.process_id):
            self._behind(process, record)

    def welcome(self, topic: bytes) -> None:
        """Tell the subscribers of a topic that their subscription is in force."""
        self._publish(topic, "iopub_welcome", {"subscription": topic.decode("ascii", "replace")})

    def status(self, epoch: str, status: str) -> None:
        """Tell everybody what the server is about to do."""
        self._publish(b"s.status", "server_status", {"epoch": epoch, "status": status})

    def farewell(self) -> None:
        """Tell once more where each log ends, for those who have missed the last broadcasts."""
        self._tails.repeat_all()

    def close(self) -> None:
        """Stop all timers; idempotent."""
        for pace in self._paces.values():
            if pace.timer is not None:
                pace.timer.cancel()
        self._paces.clear()
        self._tails.close()

    def _output(self, process: ManagedProcess, record: Record, now: float) -> None:
        pace = self._paces.setdefault(process.process_id, Pace())
        if pace.carries(record.length, now) and (data := _bytes_of(process, record)) is not None:
            content = _place(process, record) | {"stream": record.stream, "offset": record.offset}
            self._publish(_topic(process, record.stream), "process_output", content, [data])
            return
        pace.unannounced = record
        if pace.timer is None:
            wait = max(0.0, pace.announced_at + LIVE_INTERVAL - now)
            if wait:
                pace.timer = self._loop.call_later(wait, self._announce, process, pace)
            else:
                self._announce(process, pace)

    def _announce(self, process: ManagedProcess, pace: Pace) -> None:
        pace.timer = None
        record, pace.unannounced = pace.unannounced, None
        if record is None:
            return
        pace.announced_at = self._clock()
        self._behind(process, record)

    def _behind(self, process: ManagedProcess, record: Record) -> None:
        content = _place(process, record) | {"stream": record.stream, "offset": record.offset, "behind": True}
        self._publish(_topic(process, record.stream), "process_output", content)

    def _whole(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        if self._is_observed(process.process_id) and hides_something(record.kind, payload):
            # A broadcast is the same for all: so each reads that event as it is for whoever asks.
            self._publish(_topic(process, "tail"), "process_tail", _end_of(process))
            return
        fields: dict[str, Any] = payload
        if record.kind in ("exited", "closed"):
            fields = {"result": payload}
        elif record.kind == "failed":
            fields = {"error": payload}
        content = _place(process, record) | fields
        self._publish(_topic(process, record.kind), f"process_{record.kind}", content)

    def _repeat(self, tails: list[Tail]) -> None:
        families: dict[str, list[Tail]] = {}
        for tail in tails:
            process_id = tail.process.process_id
            if not self._interest.watches(process_id):
                continue
            if (family := self._interest.family(process_id)) is not None:
                families.setdefault(family, []).append(tail)
            else:
                self._repeat_one(tail)
        for family, kin in families.items():
            for begin in range(0, len(kin), _MOST_TAILS):
                self._repeat_kin(family, kin[begin : begin + _MOST_TAILS])

    def _repeat_kin(self, family: str, kin: list[Tail]) -> None:
        """Send the tails of processes that are watched together in one message."""
        if len(kin) == 1:
            self._repeat_one(kin[0])
            return
        ends = [list(_end_of(tail.process).values()) for tail in kin]
        self._publish(f"p.{family}*".encode(), "process_tails", {"tails": ends})

    def _repeat_one(self, tail: Tail) -> None:
        if not tail.frames:
            tail.frames += (
                _topic(tail.process, "tail"),
                *self._codec.encode("process_tail", _end_of(tail.process)),
            )
        self._send(tail.frames)
        self.sent += 1

    def _publish(
        self, topic: bytes, msg_type: str, content: dict[str, Any], buffers: list[bytes] | None = None
    ) -> None:
        self._send([topic, *self._codec.encode(msg_type, content, buffers=buffers or ())])
        self.sent += 1


def _end_of(process: ManagedProcess) -> dict[str, Any]:
    return {
        "process_id": process.process_id,
        "instance": process.instance,
        "seq": process.log.last_seq,
        "state": process.life.public,
    }


def _topic(process: ManagedProcess, kind: str) -> bytes:
    return f"p.{process.process_id}.{kind}".encode()


def _bytes_of(process: ManagedProcess, record: Record) -> bytes | None:
    """Return the output of an event, `None` where it cannot be read: whoever pages is told why."""
    try:
        return process.log.read_output(record)
    except OSError:
        return None


def _place(process: ManagedProcess, record: Record) -> dict[str, Any]:
    return {
        "process_id": process.process_id,
        "instance": process.instance,
        "seq": record.seq,
        "time": record.time,
    }
