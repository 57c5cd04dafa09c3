"""The lines of a recording."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.cli.asciicast import Asciicast
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started
from execzmq.types.params import TtySize
from execzmq.types.results import ExitResult, ProcessInfo
from tests.casts import Cast

START = 1_700_000_000.25


def info(*, tty: bool = True, **more: Any) -> ProcessInfo:
    """Return the description of a process."""
    size = TtySize(33, 99) if tty else None
    fields: dict[str, Any] = {
        "process_id": "p",
        "name": None,
        "instance": 1,
        "argv": (b"top", b"-d 1"),
        "cwd": b"/",
        "state": "running",
        "pid": 1,
        "started_at": START,
        "exited": False,
        "closed": False,
        "result": None,
        "last_seq": 1,
        "tty": tty,
        "tty_size": size,
        **more,
    }
    return ProcessInfo(**fields)


def record(*events: Event, stream: str | None = None, **more: Any) -> Cast:
    """Return the recording of these events, read back."""
    recording = Asciicast(info(**more), stream)
    return Cast.read(recording.header() + b"".join(map(recording.lines, events)))


def test_header() -> None:
    """It tells the size at the start, when that was, the command and its name."""
    recording = Asciicast(info(name="watch"), None)
    assert json.loads(recording.header()) == {
        "version": 3,
        "term": {"cols": 99, "rows": 33},
        "timestamp": 1_700_000_000,
        "command": "top '-d 1'",
        "title": "watch",
    }
    unseen = Asciicast(info(tty=False, argv=(), started_at=0.0), None)
    assert json.loads(unseen.header()) == {"version": 3, "term": {"cols": 80, "rows": 24}}


def test_intervals_add_up() -> None:
    """Each is told since the event before that was recorded; a clock that was put back counts as none."""
    times = [START + step for step in (0.1, 0.1000004, 0.2, 5.0, 4.0, 6.0)]
    outputs = [Output(n + 2, "stdout", n, b"x", time) for n, time in enumerate(times)]
    cast = record(Started(1, 1, START), *outputs)
    assert [interval for interval, _, _ in cast.events] == [0.1, 0.0, 0.1, 4.8, 0.0, 1.0]
    assert cast.seconds == pytest.approx(6.0)
    assert record(outputs[2]).events == [(0.0, "o", "x")]


def test_what_is_recorded() -> None:
    """Output, sizes, gaps and the end; nothing follows the end."""
    cast = record(
        Started(1, 1, START),
        Output(2, "stdout", 0, b"\x1b[1mhi\r\n", START),
        Notice(3, "resized", {"rows": 40, "cols": 132}, START),
        Notice(4, "degraded", {}, START),
        Gap(5, 9, 1234, START),
        Output(10, "stdout", 1239, "你\u2028".encode(), START),
        Exited(11, ExitResult(exit_code=3), START),
        Output(12, "stdout", 1242, b"late", START),
        Closed(13, ExitResult(exit_code=3), START),
    )
    assert [(code, data) for _, code, data in cast.events] == [
        ("o", "\x1b[1mhi\r\n"),
        ("r", "132x40"),
        ("m", "1234 bytes are missing here"),
        ("o", "你\u2028"),
        ("o", "late"),
        ("x", "3"),
    ]


@pytest.mark.parametrize(
    ("result", "status"),
    [(ExitResult(exit_code=0), "0"), (ExitResult(signal=9, cause="signaled"), "137")],
)
def test_end(result: ExitResult, status: str) -> None:
    """The status is that of a shell."""
    assert record(Closed(1, result, START)).of("x") == [status]


def test_failed_start() -> None:
    """What could not be started has the status that a shell gives for it."""
    error = {"ename": "CommandNotFound", "evalue": "no", "details": {}}
    assert record(Failed(1, error, START)).of("x") == ["127"]


def test_streams_of_pipes() -> None:
    """Lines begin at the left, as at a terminal, also where a return and its newline come apart."""
    events = [
        Output(1, "stdout", 0, b"a\nb\r", START),
        Output(2, "stdout", 5, b"\nc\r\n", START),
        Output(3, "stderr", 0, b"e\n\n", START),
    ]
    assert record(*events, tty=False).text == "a\r\nb\r\nc\r\ne\r\n\r\n"
    assert record(*events, tty=False, stream="stderr").text == "e\r\n\r\n"
    assert record(*events).text == "a\nb\r\nc\r\ne\n\n"


def test_characters_that_are_cut() -> None:
    """A character may be in two events; one that does not go on is replaced where it ends."""
    whole = "你".encode()
    end = Closed(4, ExitResult(exit_code=0), START)
    assert record(Output(1, "stdout", 0, whole[:2]), Output(2, "stdout", 2, whole[2:])).of("o") == ["你"]
    cast = record(Output(1, "stdout", 0, whole[:2]), Gap(2, 2, 9), Output(3, "stdout", 11, whole[:1]), end)
    assert [code for _, code, _ in cast.events] == ["o", "m", "o", "x"]
    assert cast.text == "\N{REPLACEMENT CHARACTER}" * 2


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=20), st.floats(0, 2e9))))
def test_any_output_makes_a_recording(pieces: list[tuple[Any, bytes, float]]) -> None:
    """Whatever is written, each line is one event by the rules, and the text is all of the output."""
    events = [Output(seq + 1, stream, 0, data, time) for seq, (stream, data, time) in enumerate(pieces)]
    end = Closed(len(events) + 1, ExitResult(exit_code=0), 2e9)
    cast = record(*events, end, stream="stdout")
    written = b"".join(event.data for event in events if event.stream == "stdout")
    assert cast.text == written.decode("utf-8", "replace")
