"""How the texts of several commands share a cell."""

import pytest

from execzmq.notebook.outlets import Outlet


def test_no_two_commands_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A line is ended before another command says something; its own end later adds no empty one (C46)."""
    one, other = Outlet("one"), Outlet("other")
    for outlet, text in (
        (one, "\ra50%"),
        (one, "\ra75%"),
        (other, "\rb50%"),
        (one, "\n"),
        (other, "\rb100%"),
        (one, "done\n"),
        (other, "\n"),
        (other, "\n"),
        (one, "x"),
        (other, "y\n"),
        (one, "\nz\n"),
    ):
        outlet.write("stdout", text)
    assert capsys.readouterr().out == "\ra50%\ra75%\n\rb50%\rb100%\ndone\n\nx\ny\nz\n"


def test_streams_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """What is unfinished on stdout ends nothing on stderr."""
    one, other = Outlet("one"), Outlet("other")
    one.write("stdout", "a")
    other.write("stderr", "b")
    assert capsys.readouterr() == ("a", "b")
