"""Lines of text from events, however the bytes were cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from execzmq.client.lines import LineSplitter
from execzmq.types.events import Closed, Event, Gap, Output
from execzmq.types.results import ExitResult

END = Closed(9, ExitResult(exit_code=0))


def lines_of(*pieces: bytes) -> list[str]:
    splitter = LineSplitter()
    events: list[Event] = [*(Output(1, "stdout", 0, piece) for piece in pieces), END]
    return [line for event in events for line in splitter.feed(event)]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_any_split_gives_the_same_lines_c41(data: bytes, cuts: list[int]) -> None:
    """Wherever the bytes are cut, the lines are those of the whole."""
    marks = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(marks)]
    assert lines_of(*pieces) == lines_of(data)


def test_line_ends() -> None:
    """A line is without its end; only a newline ends it, and an empty rest is no line."""
    assert lines_of(b"a\r\nb\n\nc\rd") == ["a", "b", "", "c\rd"]
    assert lines_of(b"a\n") == ["a"]
    assert lines_of() == []


def test_streams_are_apart() -> None:
    """An unfinished line of one stream does not mix with the other's."""
    splitter = LineSplitter()
    assert list(splitter.feed(Output(1, "stdout", 0, b"ou\xc3"))) == []
    assert list(splitter.feed(Output(2, "stderr", 0, b"err\n"))) == ["err"]
    assert list(splitter.feed(Output(3, "stdout", 3, b"\xa9\n"))) == ["ou\xe9"]


def test_gap_is_told() -> None:
    """Where bytes are lost the unfinished line ends and a line says so."""
    splitter = LineSplitter()
    assert list(splitter.feed(Output(1, "stdout", 0, b"half\xc3"))) == []
    assert list(splitter.feed(Gap(2, 3, 10))) == ["half\ufffd", "[... 10 bytes lost ...]"]
