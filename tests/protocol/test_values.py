"""Values keep their meaning over the wire; what is of a wrong form is refused by name, never believed."""

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from execzmq.errors import (
    CommandNotFound,
    ExecZMQError,
    InvalidRequest,
    ProcessNotFound,
    RemoteProtocolError,
    ServerError,
)
from execzmq.protocol import values
from execzmq.protocol.methods import BROADCASTS, EVENT_KINDS, METHODS
from execzmq.protocol.records import EVENTS as EVENT_FORMS
from execzmq.protocol.wire import Codec, Message
from execzmq.server.requests import Start, check
from execzmq.settings import MAX_EVENT, PAGE_EVENTS
from execzmq.types.events import Event, Failed, Gap, Output, Started
from execzmq.types.params import ExecParams
from execzmq.types.results import ExitResult, ProcessUsage, ReadResponse
from tests.protocol.samples import (
    BEHIND,
    ERROR,
    EVENTS,
    INFO,
    INSTANCE,
    PAGE,
    PARAMS,
    PROCESS,
    REPLIES,
    REQUESTS,
    SCREEN,
    Sample,
)
from tests.protocol.samples import (
    BROADCASTS as SAMPLES,
)
from tests.protocol.writing import broadcast_of, entry_of, page_of

CODEC = Codec(b"key", "session")


def _sent(msg_type: str, content: dict[str, Any], buffers: Any = ()) -> Message:
    return CODEC.decode(CODEC.encode(msg_type, content, buffers=buffers))


def _sample(samples: list[Sample], msg_type: str) -> Message:
    sample = next(sample for sample in samples if sample.msg_type == msg_type)
    return _sent(sample.msg_type, sample.content, sample.buffers)


READ = _sample(REPLIES, "read_reply")


@pytest.mark.parametrize(
    "params", [PARAMS, ExecParams((b"true",)), ExecParams((b"cat",), env={}, stdin="pipe")]
)
def test_params_round_trip(params: ExecParams) -> None:
    """What a client writes is what the server starts, an empty env not taken for none."""
    content, buffers = values.params_to_wire(params)
    request = check("start", _sent("start_request", {**content, "epoch": "e"}).content)
    assert isinstance(request, Start)
    assert request.params(bytes(buffers[0]) if buffers else b"") == params


def test_names_that_are_not_unicode_c45() -> None:
    """argv, env and cwd are bytes from end to end."""
    params = ExecParams((b"printf", b"a\xffb"), cwd=b"d\xff", env={b"\xff": b"\xfe"}, arg0=b"\xfd")
    request = check("start", {**values.params_to_wire(params)[0], "epoch": "e"})
    assert isinstance(request, Start)
    assert request.params(b"") == params


@pytest.mark.parametrize("name", METHODS)
def test_requests_refuse_unknown_fields_and_replies_ignore_them(name: str) -> None:
    """A new field in a request is not overlooked; in a reply it does no harm."""
    request, reply = _sample(REQUESTS, f"{name}_request"), _sample(REPLIES, f"{name}_reply")
    check(name, request.content)
    values.check_reply(name, {**reply.content, "new": 1})
    with pytest.raises(InvalidRequest, match="news"):
        check(name, {**request.content, "news": 1})


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.reply])
def test_reply_without_its_fields_is_refused(name: str) -> None:
    """A reply that lacks what its table promises is a fault of the server."""
    with pytest.raises(RemoteProtocolError):
        values.check_reply(name, {"status": "ok"})


def test_error_reply_raises_what_the_server_raised() -> None:
    """The class, the message and the details of an error come back."""
    content = _sent("start_reply", values.error_content(ERROR)).content
    with pytest.raises(CommandNotFound) as caught:
        values.check_reply("start", content)
    assert (str(caught.value), caught.value.details) == (str(ERROR), ERROR.details)
    assert caught.value.args == (str(ERROR),)


def test_error_of_an_unknown_class_is_a_server_error() -> None:
    """A newer server's error is one of the server's all the same."""
    with pytest.raises(ServerError, match="odd"):
        values.check_reply("info", {"status": "error", "ename": "NewError", "evalue": "odd"})


@pytest.mark.parametrize("content", [{}, {"status": "maybe"}, {"status": None}])
def test_reply_without_status_is_refused(content: dict[str, Any]) -> None:
    """A reply is `ok` or an error."""
    with pytest.raises(RemoteProtocolError, match="status"):
        values.check_reply("info", content)


@pytest.mark.parametrize("details", [[1], "text", 7, {b"bytes": 1}])
def test_error_reply_with_bad_details_is_refused(details: object) -> None:
    """Details are a map of names or not there."""
    with pytest.raises(RemoteProtocolError, match="details"):
        values.check_reply(
            "info", {"status": "error", "ename": "Conflict", "evalue": "x", "details": details}
        )


def test_details_of_an_error_may_have_any_name() -> None:
    """Names that mean something to Python do no harm as details."""
    details = {"self": 1, "cls": 2, "details": 3, "args": 4}
    with pytest.raises(ExecZMQError) as caught:
        values.check_reply(
            "info", {"status": "error", "ename": "Conflict", "evalue": "x", "details": details}
        )
    assert caught.value.details == details


def test_error_reply_can_always_be_packed_c45() -> None:
    """Whatever an error holds, its reply is not lost: what cannot travel becomes readable."""
    loop: list[Any] = []
    loop.append(loop)
    details = {
        "name": "a\udcff",
        "path": b"\xff",
        "number": 2**70,
        "loop": loop,
        "set": {1},
        "none": None,
        "no": 1.5,
    }
    error = ProcessNotFound("no \udcff", **details)
    content = _sent("describe_reply", values.error_content(error)).content
    with pytest.raises(ProcessNotFound) as caught:
        values.check_reply("describe", content)
    assert caught.value.message == "no \\udcff"
    assert caught.value.details["path"] == b"\xff"
    assert caught.value.details["number"] == str(2**70)


@pytest.mark.parametrize("event", [*EVENTS, Failed(2, {"ename": "X"}, 1.5)])
def test_event_round_trip_in_a_page(event: Event) -> None:
    """Each kind of event comes back from its entry, and output from the buffer at its place."""
    data = b"before" + (event.data if isinstance(event, Output) else b"")
    entry = msgpack.unpackb(msgpack.packb(entry_of(event)))
    unpacked, end = values.unpack_event([*entry, "a newer field"], memoryview(data), 6)
    assert (unpacked, end) == (event, len(data))
    assert entry[0] in EVENT_KINDS


def test_tables_of_events_agree() -> None:
    """The kinds, the forms of their fields and the broadcasts name the same things."""
    assert tuple(EVENT_FORMS) == EVENT_KINDS
    for kind in set(EVENT_KINDS) - {"gap"}:
        fields = [line.partition(":")[0].removesuffix("?") for line in BROADCASTS[f"process_{kind}"].fields]
        extra = ["behind"] if kind == "output" else []
        assert fields == ["process_id", "instance", "seq", "time", *EVENT_FORMS[kind][1], *extra]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        ["started"],
        ["started", 1, 1.0],
        ["started", 0, 1.0, 5],
        ["started", -1, 1.0, 5],
        ["started", "1", 1.0, 5],
        ["started", True, 1.0, 5],
        ["started", 1, None, 5],
        ["started", 1, float("nan"), 5],
        ["started", 1, 1.0, "5"],
        ["ended", 1, 1.0, 5],
        [b"started", 1, 1.0, 5],
        [["started"], 1, 1.0, 5],
        ["output", 1, 1.0, "stdout", 0],
        ["output", 1, 1.0, "stdout", 0, 0],
        ["output", 1, 1.0, "stdout", 0, 4],
        ["output", 1, 1.0, "stdout", 0, -1],
        ["output", 1, 1.0, "stdout", 0, True],
        ["output", 1, 1.0, "stdout", 0, MAX_EVENT + 1],
        ["output", 1, 1.0, "stdout", -1, 3],
        ["output", 1, 1.0, "stdout", 0.0, 3],
        ["output", 1, 1.0, "stdin", 0, 3],
        ["output", 1, 1.0, ["stdout"], 0, 3],
        ["exited", 1, 1.0, None],
        ["exited", 1, 1.0, {"cause": "bored"}],
        ["exited", 1, 1.0, {"cause": ["exited"]}],
        ["exited", 1, 1.0, {"exit_code": "0"}],
        ["exited", 1, 1.0, {"held_open_by": [[1]]}],
        ["exited", 1, 1.0, {"held_open_by": 3}],
        ["exited", 1, 1.0, {"output_bytes": {b"stdout": 1}}],
        ["failed", 1, 1.0, "text"],
        ["notice", 1, 1.0, "kind", {1: 2}],
        ["gap", 5, 1.0, 4, 10],
        ["gap", 5, 1.0, None, 10],
    ],
)
def test_event_of_a_wrong_form_is_refused(entry: object) -> None:
    """No entry of a page can bring in what is no event."""
    with pytest.raises(RemoteProtocolError):
        values.unpack_event(entry, memoryview(b"abc"), 0)


def test_usage_crosses_the_wire_where_it_was_measured() -> None:
    """It is left out of a description that has none."""
    assert "usage" not in values.process_info_to_wire(INFO)
    measured = replace(INFO, usage=ProcessUsage(2.5, 1 << 40, 3))
    assert values.process_info_from_wire(values.process_info_to_wire(measured)) == measured


def test_page_round_trip() -> None:
    """A page comes back whole; its output is in one buffer, and without output there is none."""
    assert values.read_response_from_wire(READ.content, READ.buffers) == PAGE
    content, buffers = page_of(ReadResponse("p", 1, (), 3, 1, 3))
    assert buffers == []
    message = _sent("read_reply", content)
    assert values.read_response_from_wire(message.content, message.buffers) == ReadResponse(
        "p", 1, (), 3, 1, 3
    )


def _page_with(**changes: Any) -> Callable[[], ReadResponse]:
    return lambda: values.read_response_from_wire({**READ.content, **changes}, READ.buffers)


@pytest.mark.parametrize(
    "read",
    [
        lambda: values.read_response_from_wire(READ.content, []),
        lambda: values.read_response_from_wire(READ.content, [bytes(READ.buffers[0]) + b"x"]),
        lambda: values.read_response_from_wire(READ.content, [*READ.buffers, b""]),
        _page_with(events=None),
        _page_with(events=[["started", 1, 1.0, 5]] * (PAGE_EVENTS + 1)),
        _page_with(instance="1"),
        _page_with(exited=1),
        _page_with(dropped_bytes={"stdout": "4"}),
        _page_with(failure={1: 2}),
        _page_with(signal="KILL"),
    ],
)
def test_page_of_a_wrong_form_is_refused(read: Callable[[], ReadResponse]) -> None:
    """A page whose fields or bytes do not fit together is a fault of the server."""
    with pytest.raises(RemoteProtocolError):
        read()


def test_views_of_other_items_are_read_as_bytes() -> None:
    """A buffer counts in bytes, whatever its view counts in."""
    content, _ = page_of(ReadResponse("p", 1, (Output(1, "stdout", 0, b"12345678"),), 1, 1, 1))
    page = values.read_response_from_wire(content, [memoryview(b"12345678").cast("Q")])
    assert page.chunks == (Output(1, "stdout", 0, b"12345678"),)


@pytest.mark.parametrize("event", [event for event in EVENTS if not isinstance(event, Gap)])
def test_event_round_trip_by_broadcast(event: Event) -> None:
    """A broadcast brings the same event as a page does, under a topic that begins with its process."""
    msg_type, topic, content, buffers = broadcast_of(PROCESS, INSTANCE, event)
    message = _sent(msg_type, content, buffers)
    announced = values.announcement_from_broadcast(message)
    assert (announced.process_id, announced.instance, announced.event) == (PROCESS, INSTANCE, event)
    kind = event.stream if isinstance(event, Output) else msg_type.removeprefix("process_")
    assert topic == f"p.{PROCESS}.{kind}".encode()


def test_behind_and_tail_carry_no_event() -> None:
    """They tell only how far the log goes."""
    behind = values.announcement_from_broadcast(_sent(BEHIND.msg_type, BEHIND.content))
    assert (behind.seq, behind.event) == (7, None)
    tail = values.announcement_from_broadcast(_sample(SAMPLES, "process_tail"))
    assert (tail.seq, tail.event, tail.state) == (9, None, "closed")


def test_tails_together_say_what_each_says_alone() -> None:
    """One message for several processes."""
    first, second = values.announcements_from_tails(_sample(SAMPLES, "process_tails"))
    assert first == values.announcement_from_broadcast(_sample(SAMPLES, "process_tail"))
    assert (second.process_id, second.seq, second.state) == ("p-2", 3, "running")


@pytest.mark.parametrize("entry", [None, [], ["p", 1, 2], ["p", 1, 2, "closed", 4], ["p", 1, "2", "closed"]])
def test_a_wrong_entry_of_tails_is_refused(entry: object) -> None:
    """And with it the message."""
    with pytest.raises(RemoteProtocolError, match=r"process_tails: tails|seq: an int"):
        values.announcements_from_tails(_sent("process_tails", {"tails": [entry]}))
    with pytest.raises(RemoteProtocolError, match="is not 'process_tails'"):
        values.announcements_from_tails(_sample(SAMPLES, "process_tail"))


@pytest.mark.parametrize(
    "msg_type", ["info_reply", "process_gap", "process_tails", "process_", "server_status", "iopub_welcome"]
)
def test_other_messages_are_no_broadcast_of_a_process(msg_type: str) -> None:
    """What is not in the table of broadcasts of processes is refused."""
    with pytest.raises(RemoteProtocolError, match="no broadcast"):
        values.announcement_from_broadcast(_sent(msg_type, {}))


@pytest.mark.parametrize("buffers", [[], [b""], [b"a", b"b"], [bytes(MAX_EVENT + 1)]])
def test_output_broadcast_has_its_one_buffer(buffers: list[bytes]) -> None:
    """Output without bytes, or with two buffers, is refused."""
    content = broadcast_of("p", 1, Output(2, "stdout", 0, b"x"))[2]
    with pytest.raises(RemoteProtocolError):
        values.announcement_from_broadcast(_sent("process_output", content, buffers))


def test_buffer_where_none_is_meant_is_refused() -> None:
    """An event without output has no buffer."""
    content = broadcast_of("p", 1, Started(1, 2))[2]
    with pytest.raises(RemoteProtocolError, match="buffer"):
        values.announcement_from_broadcast(_sent("process_started", content, [b"x"]))


def test_readable_text_replaces_what_is_no_unicode_c45() -> None:
    """The command of a process that holds a stream open may have any name."""
    result = ExitResult(exit_code=0, held_open_by=((1, "a\udcff"),), evidence=("\ud800",))
    info = dataclasses.replace(INFO, result=result)
    sent = _sent("x", {"process": values.process_info_to_wire(info)}).content["process"]
    read = values.process_info_from_wire(sent).result
    assert read is not None
    assert (read.held_open_by, read.evidence) == (((1, "a\\udcff"),), ("\\ud800",))


ODD: list[Any] = [
    None,
    True,
    -1,
    2**64 - 1,
    float("nan"),
    1e308,
    "",
    "stdout",
    "\udcff",
    b"\xff",
    [],
    [[]],
    [1, "a"],
    [["output", 1, 1.0, "stdout", 0, 3], ["gap", 2, 1, 9, 4]],
    {},
    {b"a": b"b"},
    {"a": {"a": [None]}},
    {"cause": "exited", "exit_code": None},
    {"self": 1, "message": 2, "cls": 3},
    "error",
]
READERS: list[Callable[[Any], object]] = [
    lambda content: values.read_response_from_wire(content, [b"abc"]),
    lambda content: values.unpack_event(list(content.values()), memoryview(b"abc"), 0),
    values.process_info_from_wire,
    values.server_info_from_wire,
    values.report_from_wire,
    *(lambda content, name=name: values.check_reply(name, content) for name in METHODS),
    *(
        lambda content, name=name: values.announcement_from_broadcast(
            Message({"msg_id": "a", "msg_type": name, "session": "s"}, {}, {}, content, [b"abc"])
        )
        for name in BROADCASTS
    ),
    lambda content: values.announcements_from_tails(
        Message({"msg_id": "a", "msg_type": "process_tails", "session": "s"}, {}, {}, content, [])
    ),
]


@hypothesis_settings(max_examples=1000)
@given(st.binary(min_size=3, max_size=9))
def test_any_content_is_read_or_refused(blob: bytes) -> None:
    """Whatever a signed message holds, reading it raises an error of ours or nothing."""
    samples = [*REQUESTS, *REPLIES, *SAMPLES]
    content = dict(samples[blob[0] % len(samples)].content)
    if blob[0] % 4 == 0:
        content |= {"status": "error", "ename": "Conflict", "evalue": "x", "details": {}}
    names = [*content, "status", "new"]
    for name, value in zip(blob[1::2], blob[2::2], strict=False):
        content[names[name % len(names)]] = ODD[value % len(ODD)]
    for read in READERS:
        with contextlib.suppress(ExecZMQError):
            read(content)


def test_screen_round_trip() -> None:
    """A screen comes back whole, its bytes in the one buffer."""
    message = _sent("screen_reply", {"status": "ok", **values.screen_to_wire(SCREEN)}, [SCREEN.data])
    values.check_reply("screen", message.content)
    assert values.screen_from_wire(message.content, message.buffers) == SCREEN


@pytest.mark.parametrize("change", [{"seq": -1}, {"rows": 0}, {"cols": 0}, {"rows": 201}, {"cols": 1 << 40}])
def test_screen_that_there_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """A size out of its range would cost whoever draws it; nor is it one in two buffers."""
    with pytest.raises(RemoteProtocolError):
        values.screen_from_wire({**values.screen_to_wire(SCREEN), **change}, [b""])
    with pytest.raises(RemoteProtocolError):
        values.screen_from_wire(values.screen_to_wire(SCREEN), [b"", b""])
