"""Own the forms that parameters, events, results and descriptions have in `content` and buffers.

What this side writes is taken as right; what the other side sent is checked field by field. Fields that are
not known are ignored in replies and broadcasts and refused in requests. Knows no frames and no signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from execzmq import errors
from execzmq.errors import ExecZMQError, RemoteProtocolError
from execzmq.protocol.fields import NUMBER, PLAIN, Fields, Optional, plain, readable, wrong
from execzmq.protocol.methods import BROADCASTS, METHODS
from execzmq.protocol.records import (
    COUNTS,
    EVENTS,
    PARAMS,
    PROCESS_INFO,
    PROFILE_INFO,
    REPORT,
    SERVER_INFO,
    SHARE_INFO,
    SHARE_TERMS,
)
from execzmq.protocol.wire import Frame, Message
from execzmq.settings import MAX_EVENT, PAGE_EVENTS, SCREEN_COLS, SCREEN_ROWS
from execzmq.types.events import Event, Gap, Output
from execzmq.types.params import ExecParams
from execzmq.types.results import (
    ProcessInfo,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo, ShareTerms

Content: TypeAlias = dict[str, Any]


class PageBytes(Protocol):
    """The output of a page end to end, wherever it stands."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


_REPLIES = {name: Fields(method.reply) for name, method in METHODS.items()}
_ANNOUNCEMENTS = {
    name: (name.removeprefix("process_"), Fields(broadcast.fields))
    for name, broadcast in BROADCASTS.items()
    if "{process_id}" in broadcast.topic
}
"""Kind and fields of the broadcasts that tell of one process, by message type."""
_TAILS = Fields(BROADCASTS["process_tails"].fields)
_TAIL = ("process_id", "instance", "seq", "state")


def check_reply(method: str, content: Content) -> None:
    """Raise the error that a reply names, else check its fields.

    Raises:
        ExecZMQError: the one that the server answered with.
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    status = content.get("status")
    if status == "ok":
        _REPLIES[method].check(content, f"{method}_reply")
        return
    if status != "error":
        raise RemoteProtocolError(f"{method}_reply: status is neither ok nor error")
    PLAIN.read(content.get("details") or {}, f"{method}_reply: details")
    raise errors.from_wire(content)


def error_content(error: ExecZMQError) -> Content:
    """Return the content of a reply that names an error; it can always be packed."""
    wire = errors.to_wire(error)
    return {
        "status": "error",
        "ename": wire["ename"],
        "evalue": readable(wire["evalue"]),
        "details": plain(wire["details"]),
    }


def params_to_wire(params: ExecParams) -> tuple[Content, list[Frame]]:
    """Return content, still without `epoch`, and buffers of a `start_request`."""
    content = PARAMS.write(params)
    if params.tty:
        size = params.tty_size
        content["tty"] = {"rows": size.rows, "cols": size.cols, "echo": params.tty_echo}
    return content, [params.stdin_data] if params.stdin == "data" else []


def process_info_to_wire(info: ProcessInfo) -> Content:
    """Return the map of a description."""
    return PROCESS_INFO.write(info)


def process_info_from_wire(value: object) -> ProcessInfo:
    """Return the description in a map.

    Raises:
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    return PROCESS_INFO.read(value, "process")


def server_info_to_wire(info: ServerInfo) -> Content:
    """Return the fields of an `info_reply` but its status."""
    return SERVER_INFO.write(info)


def server_info_from_wire(value: object) -> ServerInfo:
    """Return what an `info_reply` says.

    Raises:
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    return SERVER_INFO.read(value, "info_reply")


def profile_to_wire(profile: ProfileInfo) -> Content:
    """Return the map of a profile."""
    return PROFILE_INFO.write(profile)


def profile_from_wire(value: object) -> ProfileInfo:
    """Return the profile in a map.

    Raises:
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    return PROFILE_INFO.read(value, "profile")


def terms_to_wire(terms: ShareTerms) -> Content:
    """Return the fields of a `share_request` but its key."""
    return SHARE_TERMS.write(terms)


def share_to_wire(share: ShareInfo) -> Content:
    """Return the map of a share."""
    return SHARE_INFO.write(share)


def share_from_wire(value: object) -> ShareInfo:
    """Return the share in a map.

    Raises:
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    return SHARE_INFO.read(value, "share")


def explanation_from_wire(content: Content) -> Content:
    """Return what an `explain_reply` says, with every key."""
    lines = METHODS["explain"].reply
    return {name: content.get(name) for name in (line.partition(":")[0].removesuffix("?") for line in lines)}


def report_to_wire(report: TerminateReport) -> Content:
    """Return the fields of a `terminate_reply` but its status."""
    return REPORT.write(report)


def report_from_wire(value: object) -> TerminateReport:
    """Return what a `terminate_reply` says.

    Raises:
        RemoteProtocolError: a field is missing or of a wrong type.
    """
    return REPORT.read(value, "terminate_reply")


def screen_to_wire(screen: Screen) -> Content:
    """Return the fields of a `screen_reply` but its status; its buffer is the screen's data."""
    return {
        "instance": screen.instance,
        "seq": screen.seq,
        "rows": screen.rows,
        "cols": screen.cols,
        "is_cut": screen.is_cut,
    }


def screen_from_wire(content: Content, buffers: Sequence[Frame]) -> Screen:
    """Return the screen that a `screen_reply` without error, whose fields have been checked, holds.

    Raises:
        RemoteProtocolError: it can be none.
    """
    is_size = 1 <= content["rows"] <= SCREEN_ROWS and 1 <= content["cols"] <= SCREEN_COLS
    if content["seq"] < 0 or not is_size:
        raise RemoteProtocolError("screen_reply: a seq or a size that there cannot be")
    return Screen(
        instance=content["instance"],
        seq=content["seq"],
        rows=content["rows"],
        cols=content["cols"],
        data=bytes(_one_buffer(buffers)),
        is_cut=content["is_cut"],
    )


def unpack_event(entry: object, buffer: PageBytes, position: int) -> tuple[Event, int]:
    """Return the event of an entry and where in the buffer the next one's bytes begin.

    Raises:
        RemoteProtocolError: it is no event, or the buffer ends before it does.
    """
    if not isinstance(entry, list) or len(entry) < 3 or not isinstance(entry[0], str):
        raise wrong("events", "a list of kind, seq, time and more", entry)
    kind, seq, time = entry[0], entry[1], NUMBER.read(entry[2], "events: time")
    if type(seq) is not int or seq < 1:
        raise wrong("events: seq", "a positive int", seq)
    if kind == "output":
        return _unpack_output(entry, seq, time, buffer, position)
    if kind not in EVENTS:
        raise RemoteProtocolError(f"events: {readable(kind)[:64]!r} is no kind of event")
    last = 3 + len(EVENTS[kind][1])
    if len(entry) < last:
        raise RemoteProtocolError(f"events: an entry of kind {kind} ends too early")
    return _event(kind, seq, entry[3:last], time), position


def _event(kind: str, seq: int, values: list[Any], time: float) -> Event:
    cls, forms = EVENTS[kind]
    read = [form.read(value, kind) for form, value in zip(forms.values(), values, strict=True)]
    if cls is Gap and read[0] < seq:
        raise RemoteProtocolError("events: a gap ends before it begins")
    return cls(seq, *read, time)


def _unpack_output(
    entry: list[Any], seq: int, time: float, buffer: PageBytes, position: int
) -> tuple[Event, int]:
    if len(entry) < 6:
        raise RemoteProtocolError("events: an entry of kind output ends too early")
    _, _, _, stream, offset, length = entry[:6]
    end = position + _output_length(length)
    if end > len(buffer):
        raise RemoteProtocolError("events: the buffer ends before an output does")
    return _output(seq, stream, offset, bytes(buffer[position:end]), time), end


def _output_length(length: object) -> int:
    if type(length) is not int or not 0 < length <= MAX_EVENT:
        raise RemoteProtocolError(f"output: its length is no int from 1 to {MAX_EVENT}")
    return length


def _output(seq: int, stream: object, offset: object, data: bytes, time: float) -> Output:
    if stream not in ("stdout", "stderr") or type(offset) is not int or offset < 0:
        raise RemoteProtocolError("output: its stream or offset is wrong")
    return Output(seq, stream, offset, data, time)


def read_response_from_wire(
    content: Content, buffers: Sequence[Frame], stored: PageBytes | None = None
) -> ReadResponse:
    """Return the page that a `read_reply` without error holds.

    Args:
        stored: the output of the page, where the reply says that it stands in a file.

    Raises:
        RemoteProtocolError: a field or an event is wrong, or the buffer has too few or too many bytes.
    """
    _REPLIES["read"].check(content, "read_reply")
    failure = Optional(PLAIN).read(content.get("failure"), "failure")
    return ReadResponse(
        process_id=content["process_id"],
        instance=content["instance"],
        chunks=_unpack_events(content["events"], _one_buffer(buffers) if stored is None else stored),
        next_seq=content["next_seq"],
        first_seq=content["first_seq"],
        last_seq=content["last_seq"],
        exited=content["exited"],
        closed=content["closed"],
        exit_code=content.get("exit_code"),
        signal=content.get("signal"),
        failure=failure,
        dropped_bytes=COUNTS.read(content["dropped_bytes"], "dropped_bytes"),
    )


def _unpack_events(entries: list[Any], buffer: PageBytes) -> tuple[Event, ...]:
    if len(entries) > PAGE_EVENTS:
        raise RemoteProtocolError(f"a page holds {len(entries)} events, and {PAGE_EVENTS} are allowed")
    events, position = [], 0
    for entry in entries:
        event, position = unpack_event(entry, buffer, position)
        events.append(event)
    if position != len(buffer):
        raise RemoteProtocolError(f"a page has {len(buffer)} bytes of output, and its events {position}")
    return tuple(events)


def _one_buffer(buffers: Sequence[Frame]) -> memoryview:
    if len(buffers) > 1:
        raise RemoteProtocolError(f"a message has {len(buffers)} buffers where one is meant")
    return memoryview(buffers[0] if buffers else b"").cast("B")


@dataclass(slots=True, frozen=True)
class Announcement:
    """What a broadcast says of a process: an event, or only how far its log goes.

    Args:
        seq: last event that the log has, as far as the sender knew.
        event: `None` for `behind` and for a `process_tail`.
        state: of a `process_tail`; else empty.
    """

    process_id: str
    instance: int
    seq: int
    event: Event | None = None
    state: str = ""


def announcement_from_broadcast(message: Message) -> Announcement:
    """Return what a `process_*` broadcast says.

    Raises:
        RemoteProtocolError: it is none, a field is wrong, or its buffer is.
    """
    content, msg_type = message.content, message.msg_type
    if msg_type not in _ANNOUNCEMENTS:
        raise RemoteProtocolError(f"{readable(msg_type)[:64]!r} is no broadcast of a process")
    kind, fields = _ANNOUNCEMENTS[msg_type]
    fields.check(content, msg_type)
    process_id, instance, seq = content["process_id"], content["instance"], content["seq"]
    if kind == "tail":
        return Announcement(process_id, instance, seq, None, content["state"])
    if kind == "output" and content.get("behind"):
        return Announcement(process_id, instance, seq)
    return Announcement(process_id, instance, seq, _announced(kind, content, message.buffers))


def announcements_from_tails(message: Message) -> list[Announcement]:
    """Return what a `process_tails` broadcast says of each process.

    Raises:
        RemoteProtocolError: it is none, or an entry is wrong.
    """
    if message.msg_type != "process_tails":
        raise RemoteProtocolError(f"{readable(message.msg_type)[:64]!r} is not 'process_tails'")
    _TAILS.check(message.content, message.msg_type)
    return [_tail(entry) for entry in message.content["tails"]]


def _tail(entry: object) -> Announcement:
    if not isinstance(entry, list) or len(entry) != len(_TAIL):
        raise wrong("process_tails: tails", f"a list of {len(_TAIL)} values", entry)
    content = dict(zip(_TAIL, entry, strict=True))
    _ANNOUNCEMENTS["process_tail"][1].check(content, "process_tails")
    return Announcement(content["process_id"], content["instance"], content["seq"], None, content["state"])


def _announced(kind: str, content: Content, buffers: Sequence[Frame]) -> Event:
    """Return the event of a broadcast whose fields have been checked by the table of broadcasts."""
    seq, time = content["seq"], float(content["time"])
    if seq < 1:
        raise wrong(f"{kind}: seq", "a positive int", seq)
    data = _one_buffer(buffers)
    if kind == "output":
        _output_length(len(data))
        return _output(seq, content["stream"], content["offset"], bytes(data), time)
    if len(data):
        raise RemoteProtocolError(f"a process_{kind} has a buffer of {len(data)} bytes, not 0")
    return _event(kind, seq, [content.get(name) for name in EVENTS[kind][1]], time)
