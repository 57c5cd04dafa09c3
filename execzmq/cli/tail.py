"""Own where the last lines of a log begin, found from its end backwards; what is before them is not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from execzmq.settings import MIB, PAGE
from execzmq.types.events import Event, Gap, Output, first_seq_of

if TYPE_CHECKING:
    from execzmq.types.backend import ExecProcess
    from execzmq.types.events import Stream

_FEWEST = 16
"""Events that fit into one page, whatever their size."""
_MOST = 4096
_FAR = MIB
"""Bytes of the other stream beyond which the beginning of a line is not looked for."""


@dataclass(slots=True)
class Beginning:
    """Where to begin to print: after an event, and of each stream at an offset."""

    after_seq: int
    offsets: dict[Stream, int] = field(default_factory=dict)

    def cut(self, event: Output) -> bytes:
        """Return what of an event is to be printed."""
        return event.data[max(0, self.offsets.get(event.stream, 0) - event.offset) :]


class LastLines:
    """Finds the last `count` lines of output that is fed to it from its end backwards.

    Each stream has lines of its own, in the order of their ends; what follows the last newline is one, too.
    """

    def __init__(self, count: int, last_seq: int) -> None:
        self.beginning = Beginning(last_seq)
        self._left = count
        self._begun: dict[Stream, int] = {}  # lines whose beginning is looked for: bytes of others since

    @property
    def is_found(self) -> bool:
        """Whether nothing more needs to be fed."""
        return not self._left and not self._begun

    def feed(self, event: Event) -> None:
        """Take the event before those that were fed so far."""
        if isinstance(event, Gap):
            self._begun.clear()  # what was before it is gone
        elif isinstance(event, Output):
            self._look(event)
            self._leave_far(event)
        self.beginning.after_seq = first_seq_of(event) - 1

    def _look(self, event: Output) -> None:
        stream, data, offsets = event.stream, event.data, self.beginning.offsets
        if stream not in offsets:
            offsets[stream] = event.offset + len(data)
            if not data.endswith(b"\n"):
                self._take(stream)
        newline = len(data)
        while (stream in self._begun or self._left) and (newline := data.rfind(b"\n", 0, newline)) >= 0:
            if self._begun.pop(stream, None) is not None:
                offsets[stream] = event.offset + newline + 1
            self._take(stream)
        if stream in self._begun:
            offsets[stream] = event.offset

    def _take(self, stream: Stream) -> None:
        if self._left:
            self._left -= 1
            self._begun[stream] = 0

    def _leave_far(self, event: Output) -> None:
        for stream in list(self._begun):
            self._begun[stream] = 0 if stream == event.stream else self._begun[stream] + len(event.data)
            if self._begun[stream] > _FAR:
                del self._begun[stream]


async def last_lines(
    process: ExecProcess, count: int, *, last_seq: int, after_seq: int = 0, stream: str | None = None
) -> Beginning:
    """Return where the last lines of a log begin.

    Args:
        count: lines, 0 or more.
        last_seq: the event with which the log ends for this.
        after_seq: the event before which no line is looked for.
        stream: whose lines; `None` = those of both.

    Raises:
        ExecZMQError: the log cannot be read.
    """
    lines = LastLines(count, max(last_seq, after_seq))
    events, last = _FEWEST, last_seq
    while not lines.is_found and after_seq < last:
        begin = max(after_seq, last - events)
        block = await _between(process, begin, last)
        _feed(lines, block, stream)
        events, last = _next_events(events, block), begin
    return lines.beginning


def _feed(lines: LastLines, block: list[Event], stream: str | None) -> None:
    for event in reversed(block):
        if lines.is_found:
            return
        if not isinstance(event, Output) or stream in (None, event.stream):
            lines.feed(event)


def _next_events(events: int, block: list[Event]) -> int:
    """Return how many events are about a page's worth, after `events` that made this block."""
    size = sum(len(event.data) for event in block if isinstance(event, Output))
    return max(_FEWEST, min(4 * events, events * PAGE // max(size, 1), _MOST))


async def _between(process: ExecProcess, seq: int, last: int) -> list[Event]:
    found: list[Event] = []
    while seq < last:
        page = await process.read(seq)
        found += [event for event in page.chunks if seq < first_seq_of(event) <= last]
        if page.next_seq <= seq:
            break
        seq = page.next_seq
    return found
