"""What a picture brings back: the same cells, cursor and modes, whatever came before and follows."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from execzmq.process.emulator import Emulator, EmulatorBroken, tidy
from execzmq.settings import SCREEN_COLS, SCREEN_ROWS
from tests.process import sessions


def showing(emulator: Emulator) -> Any:
    """Return what can be seen of a terminal, and how its keys are."""
    vt = emulator._vt
    cells = [[(cell.char, cell.width, repr(cell.pen)) for cell in line.cells] for line in vt.view()]
    cursor = vt.cursor
    modes = emulator._modes.beside_the_picture()
    return cells, (cursor.row, cursor.col, cursor.visible), vt.cursor_key_app_mode, modes


def fed(*pieces: bytes, rows: int = 4, cols: int = 12) -> Emulator:
    """Return an emulator that has taken these pieces."""
    emulator = Emulator(rows, cols)
    for piece in pieces:
        emulator.feed(piece)
    return emulator


def text_of(emulator: Emulator) -> list[str]:
    """Return the lines of the screen without blanks at their ends."""
    return [line.text.rstrip() for line in emulator._vt.view()]


NUMBERS = st.one_of(st.just(""), st.integers(0, 12).map(str), st.integers(0, 70000).map(str))
TEXTS = st.sampled_from(
    ["a", "hello", "  ", "\r", "\n", "\r\n", "\b", "\t", "你", "é", "e\u0301", "👩", "x" * 9, "\0", "\x7f"]
)
CONTROLS = st.builds(
    "\x1b[{}{}{}{}".format,
    st.sampled_from(["", "", "?", ">"]),
    st.lists(NUMBERS, max_size=3).map(";".join),
    st.sampled_from(["", "", " ", "!"]),
    st.sampled_from("ABCDEFGHIJKLMPSTXZ@`abcdefghlmnrstuqp"),
)
MODES = st.builds(
    "\x1b[?{}{}".format,
    st.sampled_from([1, 5, 6, 7, 25, 47, 1000, 1006, 1047, 1048, 1049, 2004]),
    st.sampled_from("hl"),
)
OTHERS = st.sampled_from(
    [
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[m",
        "\x1b[1;44m",
        "\x1b[38;2;1;2;3m",
        "\x1b[48:5:9m",
        "\x1b[7m",
        "\x1b7",
        "\x1b8",
        "\x1bD",
        "\x1bM",
        "\x1bE",
        "\x1bH",
        "\x1b(0",
        "\x1b(B",
        "\x0e",
        "\x0f",
        "\x1bc",
        "\x1b#8",
        "\x1b=",
        "\x1b>",
        "\x1b[!p",
        "\x1b[4h",
        "\x1b[20h",
        "\x1b]0;title\x07",
        "\x1b]2;t\x1b\\",
        "\x1b[3 q",
        "\x1bP1q#\x1b\\",
        "\x9b5b",
    ]
)
WORDS = st.lists(st.one_of(TEXTS, TEXTS, CONTROLS, MODES, OTHERS), max_size=20).map(
    lambda s: "".join(s).encode()
)
OUTPUT = st.one_of(WORDS, st.tuples(WORDS, st.binary(max_size=6), WORDS).map(b"".join))


@given(st.integers(1, 6), st.integers(2, 12), OUTPUT, st.integers(0, 300), OUTPUT)
@example(3, 2, b"a  \x1bDa", 6, b"")  # a row of blanks that belongs to the line before
def test_picture_brings_back_the_screen(rows: int, cols: int, past: bytes, cut: int, after: bytes) -> None:
    """Cell by cell, for output that is cut anywhere; what follows leads to the same, on both screens."""
    past, after = past[:cut], past[cut:] + after
    with contextlib.suppress(EmulatorBroken):  # answered by a guess, whose test is another
        here = fed(past, rows=rows, cols=cols)
        there = fed(here.picture(), rows=rows, cols=cols)
        assert showing(there) == showing(here)
        for piece in (after, b"\x1b[?1049l", b"x\x1b8y"):
            here.feed(piece)
            there.feed(piece)
            assert showing(there) == showing(here)


@given(OUTPUT, st.lists(st.integers(0, 300), max_size=6))
def test_output_may_come_in_any_pieces(output: bytes, cuts: list[int]) -> None:
    """Characters and sequences are cut anywhere, and mean the same."""
    edges = [0, *sorted(min(cut, len(output)) for cut in cuts), len(output)]
    pieces = [output[begin:end] for begin, end in itertools.pairwise(edges)]
    with contextlib.suppress(EmulatorBroken):
        assert showing(fed(*pieces)) == showing(fed(output))


@pytest.mark.parametrize(
    ("sequence", "kept"),
    [
        (b"\x1b[?2004h", b"\x1b[?2004h"),
        (b"\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h", b"\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h"),
        (b"\x1b[?1004;1015h", b"\x1b[?1004h\x1b[?1015h"),
        (b"\x1b[?2004h\x1b[?2004l", b""),
        (b"\x1b=", b"\x1b="),
        (b"\x1b[?5h", b"\x1b[?5h"),
        (b"\x1b[5 q", b"\x1b[5 q"),
        (b"\x1b[5 q\x1b[0 q", b""),
        (b"\x1b]0;caf\xc3\xa9\x07", b"\x1b]2;caf\xc3\xa9\x07"),
        (b"\x1b]2;other\x1b\\", b"\x1b]2;other\x07"),
        (b"\x1b]2;" + b"x" * 2000 + b"\x07", b""),
        (b"\x1b[?2026h", b""),
    ],
)
def test_modes_that_no_dump_has(sequence: bytes, kept: bytes) -> None:
    """Mouse, paste, keypad, the cursor's form and the title come back, too."""
    bare = fed().picture()
    assert fed(sequence).picture() == kept + bare


@pytest.mark.parametrize("mode", [b"\x1b[?1h", b"\x1b[?25l", b"\x1b[?7l", b"\x1b[?6h", b"\x1b[4h", b"\x1b(0"])
def test_modes_that_a_dump_has(mode: bytes) -> None:
    """The others are part of the picture itself."""
    assert mode in fed(mode).picture()


def test_picture_is_for_every_terminal() -> None:
    """No 8-bit control, no repetition, no blanks at ends of lines, the alternate screen as all know it."""
    emulator = fed(b"aaaaaaaa\r\nsh\x1b[?1049h\x1b[2;3Hvim\x1b[41m \x1b[m")
    picture = emulator.picture()
    assert picture.decode().isascii()
    assert b"aaaaaaaa\r\nsh\r\n" in picture
    assert b"\x1b[?1049h" in picture
    assert b"1047" not in picture
    assert b"  vim\x1b[0;41m \x1b[0m\r\n" in picture
    assert text_of(fed(picture)) == ["", "  vim", "", ""]
    assert text_of(fed(picture, b"\x1b[?1049l")) == ["aaaaaaaa", "sh", "", ""]


@pytest.mark.parametrize(
    ("dump", "tidied"),
    [
        ("ab\x1b[3b \x1b[5b\r\n", "abbbb\r\n"),
        ("\x1b[0;41m \x1b[2b\x1b[0m\r\n", "\x1b[0;41m   \x1b[0m\r\n"),
        ("a \x1b[9b\x1b[0;1mb\r\n", "a          \x1b[0;1mb\r\n"),
        ("a \x1b[10b \x1b[11b\r\nb", "a" + " " * 23 + "\r\nb"),  # two rows
        ("你你你你你  \r\nb \x1b[m\x9b1;1H", "你你你你你\r\nb\x1b[m\x1b[1;1H"),
    ],
)
def test_tidy(dump: str, tidied: str) -> None:
    """Repeats are written out, and blanks stay where they are seen or are a row."""
    assert tidy(dump, 12) == tidied


def test_questions_are_not_asked_again() -> None:
    """What a terminal would answer is no part of a picture."""
    assert fed(b"a\x1b[6n\x1b[c\x1b]11;?\x07\x05").picture() == fed(b"a").picture()


def test_sequence_that_is_not_over_goes_on() -> None:
    """A picture taken within a character, a sequence or a title ends with its beginning."""
    for whole in (b"\xe4\xbd\xa0", b"\x1b[12;34H", b"\x1b]2;title\x07", b"\x1b[38;5;9m", b"\x1b(0"):
        for cut in range(1, len(whole)):
            picture = fed(b"ab", whole[:cut]).picture()
            assert picture.endswith(whole[:cut])
            assert showing(fed(picture, whole[cut:] + b"q")) == showing(fed(b"ab", whole + b"q"))


def test_size_is_bounded() -> None:
    """Of an absurd terminal a part is followed, and the picture says that it is one."""
    emulator = Emulator(65535, 65535)
    assert (emulator.rows, emulator.cols, emulator.is_cut) == (SCREEN_ROWS, SCREEN_COLS, True)
    emulator.resize(5, 10)
    assert (emulator.rows, emulator.cols, emulator.is_cut) == (5, 10, False)
    emulator.resize(65535, 10)
    assert (emulator.rows, emulator.cols, emulator.is_cut) == (SCREEN_ROWS, 10, True)
    assert emulator.piece >= 16


def test_repetition_is_bounded() -> None:
    """Repetitions fill the screen and no more, with the same end: they would take seconds."""
    for sequence in (b"\x1b[65535b", b"\xc2\x9b65535b", b"\x1b\x00[65535b"):
        shown = fed(b"xy" + sequence * 2000)
        assert text_of(shown)[:3] == ["y" * 12] * 3
        assert shown._vt.cursor.col == (2 + 2000 * 65535 - 1) % 12 + 1
    assert text_of(fed(b"xy\x1b[6\x005b\x1b[;b\x1b[b"))[0] == "xyy"


def test_what_is_lost_is_told_until_it_shows_no_more() -> None:
    """After lost output the screen is cut until it is cleared; what was within a sequence ends there."""
    emulator = fed(b"abc\x1b[3")
    emulator.lose()
    emulator.feed(b"1mdef")
    assert emulator.is_cut
    assert text_of(emulator)[0] == "abc1mdef"
    emulator.feed(b"\x1b[2J")
    assert not emulator.is_cut


def test_fault_of_the_emulator_is_contained() -> None:
    """A fault within the emulator is an error like others."""
    with pytest.raises(EmulatorBroken):
        fed("\x1b[?7l\N{WOMAN}".encode(), rows=1, cols=1)


def play(emulator: Emulator, steps: Sequence[tuple[int, int] | bytes]) -> Emulator:
    """Do what a recording tells."""
    for step in steps:
        if isinstance(step, bytes):
            emulator.feed(step)
        else:
            emulator.resize(*step)
    return emulator


@pytest.mark.parametrize("name", sessions.KEYS)
def test_who_joins_a_session_late_sees_the_same(name: str) -> None:
    """At any byte of a recorded session, cell by cell, then and at each later one that is looked at."""
    size, *steps = (step for step in sessions.session(name).sizes_and_output())
    assert isinstance(size, tuple)
    whole = Emulator(*size)
    joined: list[Emulator] = []
    for number, step in enumerate(steps):
        pieces = [step[: len(step) // 3], step[len(step) // 3 :]] if isinstance(step, bytes) else [step]
        for piece in pieces:
            for emulator in (whole, *joined):
                play(emulator, [piece])
            late = Emulator(whole.rows, whole.cols)
            late.feed(whole.picture())
            for emulator in (late, *joined):
                assert showing(emulator) == showing(whole), number
        joined = [*joined[-3:], late]
    assert len(whole.picture()) < 20_000
