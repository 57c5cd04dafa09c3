"""What a program has set on the screen is known and undone."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.modes import ScreenModes

VIM = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l\x1b[1;31mtext"


@pytest.mark.parametrize(
    ("output", "undone"),
    [
        (b"plain text\r\n", b""),
        (b"\x1b[?25l\x1b[?25h", b""),
        (b"\x1b[?25l", b"\x1b[?25h"),
        (b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"),
        (b"\x1b[?1049h\x1b[?1049l", b""),
        (b"\x1b[?1000;1006h", b"\x1b[?1000l\x1b[?1006l"),
        (b"\x1b[31mred", b"\x1b[m"),
        (b"\x1b[31mred\x1b[0m", b""),
        (b"\x1b[31mred\x1b[m", b""),
        (b"\x1b=", b"\x1b>"),
        (b"\x1b=\x1b>", b""),
        (b"\x1b(0lines", b"\x0f\x1b(B"),
        (VIM + b"\x1bc", b""),
        (VIM + b"\x1b[!p", b""),
        (b"\x1b[?7l", b"\x1b[?7h"),
        (b"\x1b[?12345h", b""),
    ],
)
def test_undo(output: bytes, undone: bytes) -> None:
    """Only what is left set is undone; the screen goes last, since leaving it moves the cursor."""
    modes = ScreenModes()
    modes.feed(output)
    assert modes.undo() == undone


@given(st.lists(st.integers(0, len(VIM)), max_size=8))
def test_sequences_may_be_cut_anywhere(cuts: list[int]) -> None:
    """Output comes in pieces of any size, and means the same."""
    whole, pieces = ScreenModes(), ScreenModes()
    whole.feed(VIM)
    edges = [0, *sorted(cuts), len(VIM)]
    for begin, end in itertools.pairwise(edges):
        pieces.feed(VIM[begin:end])
    assert pieces.undo() == whole.undo()


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_taken(pieces: list[bytes]) -> None:
    """No output makes it fail or remember without bound."""
    modes = ScreenModes()
    for piece in pieces:
        modes.feed(piece)
    assert len(modes.undo()) < 300
