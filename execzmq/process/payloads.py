"""Own the bytes of events that are no output, as a log has them, and the events made of records. Pure."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from execzmq.process.paging import Dropped, LogPage
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started
from execzmq.types.results import ExitResult

if TYPE_CHECKING:
    from execzmq.process.index import Record


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encode(value: dict[str, Any]) -> bytes:
    """Return the bytes of a payload; text that is no UTF-8 survives as escapes."""
    return _encode(value).encode("ascii")


def decode(payload: bytes) -> dict[str, Any]:
    """Return the value of a payload."""
    value = json.loads(payload) if payload else {}
    return value if isinstance(value, dict) else {}


def result_to_dict(result: ExitResult) -> dict[str, Any]:
    """Return a result as plain values, tuples as lists."""
    fields = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    fields["held_open_by"] = [list(holder) for holder in result.held_open_by]
    fields["evidence"] = list(result.evidence)
    return fields


def result_from_dict(fields: dict[str, Any]) -> ExitResult:
    """Return the result that `result_to_dict` described; fields of a later version are dropped."""
    known = {f.name for f in dataclasses.fields(ExitResult)}
    values = {name: value for name, value in fields.items() if name in known}
    values["held_open_by"] = tuple((int(pid), str(name)) for pid, name in fields.get("held_open_by", ()))
    values["evidence"] = tuple(fields.get("evidence", ()))
    return ExitResult(**values)


def event_of(record: Record, payload: dict[str, Any], data: bytes) -> Event:
    """Return the event that a log record and its payload, or its output bytes, make."""
    if record.stream != "meta":
        return Output(record.seq, record.stream, record.offset, data, record.time)
    if record.kind == "started":
        return Started(record.seq, int(payload.get("pid", 0)), record.time)
    if record.kind == "exited":
        return Exited(record.seq, result_from_dict(payload), record.time)
    if record.kind == "closed":
        return Closed(record.seq, result_from_dict(payload), record.time)
    if record.kind == "failed":
        return Failed(record.seq, payload, record.time)
    return Notice(record.seq, str(payload.get("kind", "")), payload.get("data", {}), record.time)


def events_of(page: LogPage) -> list[Event]:
    """Return the events of a page; the bytes of each output event are a copy of its part of the buffer."""
    events: list[Event] = []
    position = 0
    for entry in page.entries:
        if isinstance(entry, Dropped):
            events.append(Gap(entry.from_seq, entry.to_seq, entry.bytes))
            continue
        length = entry.length if entry.kind == "output" else 0
        data = bytes(memoryview(page.buffer)[position : position + length])
        position += length
        events.append(event_of(entry, decode(page.payloads.get(entry.seq, b"")), data))
    return events
