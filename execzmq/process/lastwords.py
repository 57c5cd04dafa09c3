"""Own the look at the end of what a command said, where the words tell why it failed."""

from __future__ import annotations

from execzmq.process.log import OutputLog
from execzmq.process.payloads import events_of
from execzmq.types.events import Output, Stream

MOST = 16 * 1024
"""Bytes of each stream."""
_EVENTS = (8, 64)
"""Events at the end that are looked at, and how many if those have said little."""


def last_output(log: OutputLog) -> dict[Stream, bytes]:
    """Return the last bytes of each stream, nothing where they cannot be read."""
    last: dict[Stream, bytes] = {}
    for events in _EVENTS:
        after_seq = max(0, log.last_seq - events)
        last = _output_after(log, after_seq)
        if after_seq == 0 or any(len(data) >= MOST for data in last.values()):
            break
    return last


def _output_after(log: OutputLog, seq: int) -> dict[Stream, bytes]:
    last: dict[Stream, bytes] = {}
    try:
        while seq < log.last_seq:
            page = log.page(seq)
            for event in events_of(page):
                if isinstance(event, Output):
                    last[event.stream] = (last.get(event.stream, b"") + event.data)[-MOST:]
            seq = page.next_seq
    except OSError:
        return {}
    return last
