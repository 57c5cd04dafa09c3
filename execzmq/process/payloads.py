"""Own the bytes of events that are no output, as a log has them, and the events made of records. Pure."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]  # it ships no types

from execzmq.process.paging import Dropped, LogPage
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started
from execzmq.types.results import ExitResult

if TYPE_CHECKING:
    from execzmq.process.index import Record


RESIZED = "resized"
"""Kind of the notice that tells of a new size of the terminal: `rows` and `cols`."""

_RESULT_FIELDS = tuple(field.name for field in dataclasses.fields(ExitResult))
_values_of_result = operator.attrgetter(*_RESULT_FIELDS)
encode: Callable[[dict[str, Any]], bytes] = msgpack.Packer(unicode_errors="surrogatepass").pack
"""Return the bytes of a payload."""


def readable(text: str) -> str:
    """Return text that can stand anywhere: what is no valid Unicode, as names of files may be, as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def plain(value: object) -> Any:
    """Return the value as what a payload can hold: numbers, readable text, lists and maps by text."""
    if isinstance(value, dict):
        return {readable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return readable(value) if isinstance(value, str) else value


def decode(payload: bytes) -> dict[str, Any]:
    """Return the value of a payload."""
    value = msgpack.unpackb(payload, unicode_errors="surrogatepass") if payload else {}
    return value if isinstance(value, dict) else {}


def is_sound(payload: bytes) -> bool:
    """Tell whether these are the bytes of a payload."""
    try:
        return not payload or isinstance(msgpack.unpackb(payload, unicode_errors="surrogatepass"), dict)
    except (ValueError, TypeError, msgpack.UnpackException):
        return False


def result_to_dict(result: ExitResult) -> dict[str, Any]:
    """Return a result as plain values, tuples as lists."""
    fields = dict(zip(_RESULT_FIELDS, _values_of_result(result), strict=True))
    fields["held_open_by"] = [[pid, readable(command)] for pid, command in result.held_open_by]
    fields["evidence"] = [readable(text) for text in result.evidence]
    return fields


def result_from_dict(fields: dict[str, Any]) -> ExitResult:
    """Return the result that `result_to_dict` described; fields of a later version are dropped."""
    values = {name: fields[name] for name in _RESULT_FIELDS if name in fields}
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
            events.append(Gap(entry.from_seq, entry.to_seq, entry.bytes, entry.time))
            continue
        length = entry.length if entry.kind == "output" else 0
        data = bytes(memoryview(page.buffer)[position : position + length])
        position += length
        events.append(event_of(entry, decode(page.payloads.get(entry.seq, b"")), data))
    return events
