"""Where the last lines of a log begin."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.cli.tail import Beginning, LastLines, last_lines
from execzmq.settings import MIB
from execzmq.types.events import Event, Exited, Gap, Output, Stream
from execzmq.types.results import ExitResult, ReadResponse
from tests.fakes import FakeProcess

STREAMS = st.sampled_from(["stdout", "stderr"])
PIECES = st.lists(st.tuples(STREAMS, st.sampled_from([b"\n", b"a", b"bc\nd", b"e\n\n"])))


class Logged(FakeProcess):
    """A process with a log that is read in pages of one event or more."""

    def __init__(self, log: list[Event]) -> None:
        super().__init__("p", [])
        self.log = log
        self.reads = 0

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        self.reads += 1
        found = [e for e in self.log if (e.to_seq if isinstance(e, Gap) else e.seq) > after_seq]
        page = tuple(found[:1] if max_bytes else found[:7])
        last = page[-1] if page else None
        end = after_seq if last is None else last.to_seq if isinstance(last, Gap) else last.seq
        return ReadResponse("p", 1, page, end, 1, len(self.log))


def outputs(*pieces: tuple[Any, bytes]) -> list[Event]:
    """Return the events of a process that has written these pieces."""
    ends = {"stdout": 0, "stderr": 0}
    events: list[Event] = []
    for stream, data in pieces:
        events.append(Output(len(events) + 1, stream, ends[stream], data))
        ends[stream] += len(data)
    return events


def printed(events: list[Event], begin: Beginning, stream: Stream) -> bytes:
    """Return what is printed of a stream."""
    return b"".join(
        begin.cut(event)
        for event in events
        if isinstance(event, Output) and event.stream == stream and event.seq > begin.after_seq
    )


def lines_of(events: list[Event]) -> list[tuple[str, bytes]]:
    """Return the lines of both streams in the order of their ends."""
    open_lines: dict[str, tuple[int, bytes]] = {}
    found: list[tuple[int, str, bytes]] = []
    at = 0
    for event in events:
        assert isinstance(event, Output)
        for byte in event.data:
            at += 1
            line = open_lines.pop(event.stream, (0, b""))[1] + bytes([byte])
            if byte == ord("\n"):
                found.append((at, event.stream, line))
            else:
                open_lines[event.stream] = at, line
    found += [(at, stream, line) for stream, (at, line) in open_lines.items()]
    return [(stream, line) for _, stream, line in sorted(found)]


@given(PIECES, st.integers(0, 8))
def test_the_last_lines_are_the_last_to_end(pieces: Any, count: int) -> None:
    """However the streams mix and wherever events begin."""
    events = outputs(*pieces)
    lines = LastLines(count, len(events))
    for event in reversed(events):
        if lines.is_found:
            break
        lines.feed(event)
    wanted = lines_of(events)[-count:] if count else []
    for stream in ("stdout", "stderr"):
        expected = b"".join(line for name, line in wanted if name == stream)
        assert printed(events, lines.beginning, stream) == expected


def test_what_is_gone_ends_a_line() -> None:
    """A line whose beginning is gone begins after the gap; further lines are looked for before it."""
    events = [*outputs(("stdout", b"a\nb\n")), Gap(2, 5, 100), Output(6, "stdout", 104, b"rest\nlast\n")]
    for count, seq, expected in ((1, 5, b"last\n"), (2, 1, b"rest\nlast\n"), (3, 0, b"b\nrest\nlast\n")):
        lines = LastLines(count, 6)
        for event in reversed(events):
            if not lines.is_found:
                lines.feed(event)
        assert (lines.beginning.after_seq, printed(events, lines.beginning, "stdout")) == (seq, expected)


def test_a_beginning_far_away_is_not_looked_for() -> None:
    """A stream that is silent for long does not let the whole log be read."""
    lines, found = LastLines(2, 9), []
    for event in (
        Output(9, "stderr", 50, b"end\n"),
        Output(8, "stdout", 5 * MIB, bytes(MIB // 2) + b"\nline\n"),
        Output(7, "stdout", 4 * MIB, bytes(MIB)),
    ):
        lines.feed(event)
        found.append(lines.is_found)
    assert found == [False, False, True]
    assert lines.beginning == Beginning(6, {"stderr": 50, "stdout": 5 * MIB + MIB // 2 + 1})


def _log(count: int) -> list[Event]:
    pieces: list[tuple[Any, bytes]] = [("stdout", b"%06d\n" % number) for number in range(count)]
    return [*outputs(*pieces), Exited(count + 1, ExitResult(exit_code=0))]


@pytest.mark.parametrize(("count", "reads"), [(0, 0), (1, 3), (100, 50)])
async def test_a_long_log_is_read_from_its_end(count: int, reads: int) -> None:
    """The number of reads depends on how much is asked for, not on how long the log is."""
    process = Logged(_log(10_000))
    begin = await last_lines(process, count, last_seq=10_001)
    expected = b"".join(b"%06d\n" % number for number in range(10_000 - count, 10_000))
    assert printed(process.log, begin, "stdout") == expected
    assert process.reads <= reads


async def test_bounds_of_the_log() -> None:
    """Neither what is before `after_seq` counts nor what comes after `last_seq`, nor another stream."""
    log = outputs(*((("stdout", "stderr")[n % 2], b"%d\n" % n) for n in range(5)))
    process = Logged(log)
    assert (await last_lines(process, 9, last_seq=5, after_seq=2)).after_seq == 2
    begin = await last_lines(process, 1, last_seq=4)
    assert printed(log, begin, "stderr") == b"3\n"
    begin = await last_lines(process, 2, last_seq=5, stream="stderr")
    assert printed(log, begin, "stderr") == b"1\n3\n"
    assert (await last_lines(process, 3, last_seq=2, after_seq=7)).after_seq == 7
