"""A screen as lines with colours."""

import pytest

from execzmq.notebook.pictures import picture

pytest.importorskip("avt")


def test_colours_and_cells() -> None:
    """Colours begin and end where they do, wide letters stand once, blank ends are cut."""
    data = "\x1b[31mred\x1b[0m plain\r\n\r\n\x1b[1;44m日b\x1b[m\r\n\x1b[4;3Hx\x1b[38;2;1;2;3my".encode()
    assert picture(data, 6, 20).split("\n") == [
        "\x1b[0;38;5;1mred\x1b[0m plain",
        "",
        "\x1b[0;1;48;5;4m日b\x1b[0m",
        "  x\x1b[0;38;2;1;2;3my\x1b[0m",
    ]


def test_broken_bytes() -> None:
    """What is no text costs only itself."""
    assert picture(b"a\xff\xfeb", 2, 10).startswith("a")
    assert picture(b"", 2, 10) == ""


def test_repeats_are_left_out() -> None:
    """No screen that is told has them; much of them, from a server that means ill, would take minutes."""
    assert picture(b"x\x1b[65535b\x1b[;9b\xc2\x9b3by\x1b[1mb", 2, 10) == "xy\x1b[0;1mb\x1b[0m"
