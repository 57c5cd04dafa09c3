"""What carriage returns leave to be seen."""

import random

import pytest

from execzmq.notebook.bars import Overwriting, last_state


@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (["a\nb\n"], ["a\nb\n"]),
        (["\r10%\r20%\r30%"], ["\r30%"]),
        (["\r10%", "\r20%"], ["\r10%", "\r20%"]),
        (["10%\r", "20%\r"], ["10%\r", "20%\r"]),
        (["10%\r20%\r30%\r"], ["\r30%\r"]),
        (["longer\rab"], ["longer\rab"]),
        (["longer\r\x1b[Kab"], ["\r\x1b[Kab"]),
        (["\x1b[32mab\x1b[0m\rcd"], ["\rcd"]),
        (["ab", "cd\refgh"], ["ab", "\refgh"]),
        (["ab", "cd\ref"], ["ab", "cd\ref"]),
        (["a\r\nb\r\n"], ["a\nb\n"]),
        (["1%\r2%\ndone\n"], ["\r2%\ndone\n"]),
    ],
)
def test_overwritten_parts_are_left_out(pieces: list[str], written: list[str]) -> None:
    """Only what is covered by what follows it in the same piece goes."""
    overwriting = Overwriting()
    assert [overwriting.feed(piece) for piece in pieces] == written


def _screen(text: str) -> list[str]:
    """Return the lines that a terminal shows."""
    lines = [""]
    column = 0
    for one in text:
        if one == "\n":
            lines.append("")
            column = 0
        elif one == "\r":
            column = 0
        else:
            lines[-1] = lines[-1][:column] + one + lines[-1][column + 1 :]
            column += 1
    return lines


def test_any_text_in_any_pieces_looks_the_same() -> None:
    """What is written shows what the whole text would, and is counted as it is seen."""
    chosen = random.Random(7)
    for _ in range(300):
        text = "".join(chosen.choices("ab\r\n", (4, 4, 3, 1), k=chosen.randrange(40)))
        cuts = sorted(chosen.randrange(len(text) + 1) for _ in range(3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        overwriting = Overwriting()
        written = "".join(overwriting.feed(piece) for piece in pieces)
        assert _screen(written) == _screen(text)
        assert overwriting.seen == len("\n".join(_screen(text)))
        assert overwriting.lines == text.count("\n")
        assert last_state(text.replace("\n", "")) == _screen(text.replace("\n", ""))[0]


def test_last_state_with_colours_is_the_last_part() -> None:
    """Where columns cannot be told, what came last is what is seen."""
    assert last_state("long and plain\r\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
