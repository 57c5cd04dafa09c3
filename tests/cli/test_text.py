"""How things look in listings."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.cli.text import age, clock, command_line, plain, printable, readable, size, table
from execzmq.types.results import ExitResult, ProcessRef, TerminateReport


def test_names_that_are_not_utf8() -> None:
    """A byte that is not UTF-8 is shown as `\\xNN`, wherever the name is shown."""
    assert readable(b"caf\xe9 \xc3\xa9") == "caf\\xe9 é"
    assert plain({"argv": (b"\xff",)}) == {"argv": ["\\xff"]}


def test_command_line_moves_no_cursor() -> None:
    """Control characters in a command are escaped, so that a listing cannot be forged."""
    shown = command_line([b"sh", b"-c", b"a\nb\x1b[2J", b"\xff"])
    assert shown.isprintable()
    assert "\\n" in shown
    assert "\\x1b" in shown


@given(st.lists(st.binary()))
def test_any_command_is_one_printable_line(words: list[bytes]) -> None:
    """Whatever the words hold, they are one line that can be printed."""
    assert command_line(words).isprintable()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (10 * 1024, "10 KiB"), (2 * 1024**4, "2.0 TiB")],
)
def test_size(count: int, shown: str) -> None:
    """A size has its unit and few digits."""
    assert size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-1, "0s"), (5, "5s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200000, "2d")]
)
def test_age(seconds: float, shown: str) -> None:
    """An age has its largest unit, once there are two of it."""
    assert age(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-1, "0:00.00"), (0.129, "0:00.12"), (75.5, "1:15.50"), (7384.9, "2:03:04")]
)
def test_clock(seconds: float, shown: str) -> None:
    """A processor time has hundredths below an hour."""
    assert clock(seconds) == shown


def test_table_fits_the_terminal() -> None:
    """Columns are aligned; at a terminal long lines are cut, elsewhere nothing is."""
    rows = [("ID", "COMMAND"), ("a", "x" * 50), ("long", "y")]
    assert table(rows) == ["ID    COMMAND", f"a     {'x' * 50}", "long  y"]
    assert all(len(line) <= 20 for line in table(rows, 20))
    assert table(rows, 20)[1].endswith("…")


def test_plain_is_json() -> None:
    """Results and reports become what JSON knows."""
    report = TerminateReport(survivors=(ProcessRef(3, "sh"),))
    text = json.dumps([plain(report), plain(ExitResult(exit_code=1, held_open_by=((4, "sleep"),)))])
    assert json.loads(text)[0]["survivors"] == [{"pid": 3, "command": "sh"}]
    assert printable("a\tb") == "a\\tb"
