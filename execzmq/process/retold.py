"""Own that what is gone from a log and known otherwise is told all the same: the start and the end. Pure.

A reader must come to the end of a process in order, whatever others have done to its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from execzmq.process import payloads
from execzmq.process.index import Kind, Record, make
from execzmq.process.paging import Dropped, LogPage


class Known(NamedTuple):
    """An event that is no output, as it was told."""

    seq: int
    kind: Kind
    time: float
    payload: dict[str, Any]


def retell(page: LogPage, known: Callable[[], Iterable[Known]], clock: Callable[[], float]) -> LogPage:
    """Return the page with damaged payloads told as dropped, and with what is `known` of what was dropped.

    Args:
        known: events in order; asked where something is missing only.
        clock: Unix seconds, for what is missing with nothing after it.
    """
    damaged = {seq for seq, payload in page.payloads.items() if not payloads.is_sound(payload)}
    if not damaged and not any(isinstance(entry, Dropped) for entry in page.entries):
        return page
    events = tuple(known())
    entries: list[Record | Dropped] = []
    for entry in _joined(page.entries, damaged):
        entries += _split(entry, events, entry.time or clock()) if isinstance(entry, Dropped) else [entry]
    told = {event.seq: payloads.encode(event.payload) for event in events}
    missing = {
        entry.seq: told[entry.seq]
        for entry in entries
        if isinstance(entry, Record)
        and entry.seq in told
        and (entry.seq in damaged or entry.seq not in page.payloads)
    }
    return replace(page, entries=entries, payloads={**page.payloads, **missing})


def _joined(entries: Iterable[Record | Dropped], damaged: set[int]) -> list[Record | Dropped]:
    """Return the entries with the damaged ones as dropped, and one `Dropped` where some follow each other."""
    joined: list[Record | Dropped] = []
    for entry in entries:
        if isinstance(entry, Record) and entry.seq in damaged:
            entry = Dropped(entry.seq, entry.seq, 0, time=entry.time)
        last = joined[-1] if joined else None
        if isinstance(entry, Dropped) and isinstance(last, Dropped):
            joined[-1] = replace(last, to_seq=entry.to_seq, bytes=last.bytes + entry.bytes, time=entry.time)
        else:
            joined.append(entry)
    return joined


def _split(gap: Dropped, events: Iterable[Known], time: float) -> Iterator[Record | Dropped]:
    """Yield the known events of a gap, and what is missing between them; its bytes with the first of that."""
    seq, lost = gap.from_seq, gap.bytes
    for event in events:
        if seq <= event.seq <= gap.to_seq:
            if seq < event.seq:
                yield Dropped(seq, event.seq - 1, lost, time=event.time)
                lost = 0
            yield make(event.seq, event.kind, "meta", 0, 0, event.time, 0, 0)
            seq = event.seq + 1
    if seq <= gap.to_seq:
        yield Dropped(seq, gap.to_seq, lost, time=time)
