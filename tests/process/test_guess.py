"""What a newcomer is shown of a terminal's past where no emulator follows it."""

import pytest

from execzmq.process.guess import picture


@pytest.mark.parametrize(
    ("past", "is_cut", "shown", "has_holes"),
    [
        (b"all of it", False, b"all of it", False),
        (b"half a line\nwhole line\n", True, b"whole line\n", True),
        (b"\x1b[3;1Hno lines at all\n", True, b"\x1b[3;1Hno lines at all\n", True),
        (b"\xa9 cut in a character", True, b" cut in a character", True),
        (b"old\x1b[2Jnew", True, b"\x1b[2Jnew", False),
        (b"old\x1b[H\x1b[Jnew", False, b"\x1b[H\x1b[Jnew", False),
        (b"shell\x1b[?1049hvim", False, b"\x1b[?1049hvim", False),
        (b"a\x1bcb\x1bcc", False, b"\x1bcc", False),
    ],
)
def test_picture_begins_where_the_screen_was_cleared(
    past: bytes, is_cut: bool, shown: bytes, has_holes: bool
) -> None:
    """The last clearing begins the picture; else it begins with a whole line."""
    result = picture(past, is_cut=is_cut)
    assert (result.data, result.is_cut) == (shown, has_holes)


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b[c", b"\x1b[>0c", b"\x1b[6n", b"\x1b[?6n", b"\x1b[?2026$p", b"\x1b[>q", b"\x1b[?u", b"\x1b[14t",
        b"\x1b]11;?\x07", b"\x1b]4;1;?\x1b\\", b"\x1bP+q544e\x1b\\", b"\x1bP$qm\x1b\\", b"\x05",
        b"\x1b]52;c;c2VjcmV0\x07",
    ],
)  # fmt: skip
def test_picture_asks_nothing(question: bytes) -> None:
    """A question to the terminal is left out: its answer would be typed into the command."""
    assert picture(b"a" + question + b"b", is_cut=False).data == b"ab"


@pytest.mark.parametrize(
    "kept", [b"\x1b]0;title\x07", b"\x1b[31m", b"\x1b[2;5H", b"\x1b[>1u", b"\x1b[22;0;0t"]
)
def test_picture_keeps_what_draws(kept: bytes) -> None:
    """What sets titles, colours, places and modes stays."""
    assert picture(kept, is_cut=False).data == kept
