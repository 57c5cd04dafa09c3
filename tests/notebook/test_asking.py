"""What a line asks of `start`."""

from pathlib import Path
from typing import Any

import pytest

from execzmq.notebook.arguments import BadLine, Line
from execzmq.notebook.asking import after_seq, expanded, start_options
from execzmq.types.params import EnvPolicy


def test_values_stand_in_every_text() -> None:
    """Names, variables and the command are expanded, flags are not touched."""
    line = Line(name="run-{n}", env=("A={n + 1}", "B"), bg=True, command="echo {n}")
    assert expanded(line, {"n": 1}) == Line(name="run-1", env=("A=2", "B"), bg=True, command="echo 1")
    assert expanded(Line(command="{n}", no_expand=True), {}).command == "{n}"


def test_options_become_keywords() -> None:
    """What is said is passed on, what is not has no influence."""
    line = Line(name="n", cwd="d", sandbox="read-only", timeout="1.5", interactive=True)
    expected = {"name": "n", "cwd": "d", "sandbox": "read-only", "tty": False, "timeout": 1.5, "stdin": True}
    assert start_options(line, {}, {}) == expected
    plain = {"name": None, "cwd": None, "sandbox": None, "tty": False, "timeout": None}
    assert start_options(Line(), {}, {}) == plain


def test_variables_are_added() -> None:
    """`-e` adds to what the command gets anyway; values that are text, numbers or paths are taken."""
    names: dict[str, Any] = {"s": "x", "b": b"\xff", "p": Path("/p"), "f": 0.5}
    options = start_options(Line(env=("A=1=2", "s", "b", "p", "f")), names, {"M": "m"})
    values: dict[str, str | bytes] = {"A": "1=2", "s": "x", "b": b"\xff", "p": "/p", "f": "0.5", "M": "m"}
    assert options["env_policy"] == EnvPolicy(set=values)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Line(timeout="soon"), "--timeout takes seconds"),
        (Line(timeout="0"), "--timeout takes seconds"),
        (Line(timeout="nan"), "--timeout takes seconds"),
        (Line(env=("nope",)), "no Python variable nope"),
        (Line(env=("=x",)), "-e takes NAME or NAME=VALUE"),
        (Line(env=("l",)), r"a list is no text; -e l=\{str\(l\)\}"),
    ],
)
def test_bad_values_are_told(line: Line, message: str) -> None:
    """One line names the option and what it takes."""
    with pytest.raises(BadLine, match=message):
        start_options(line, {"l": []}, {})


def test_event_is_a_number() -> None:
    """`--after-seq` is 0 unless told."""
    assert [after_seq(Line()), after_seq(Line(after_seq="12"))] == [0, 12]
    for text in ("-1", "9" * 5000):
        with pytest.raises(BadLine, match="number of an event"):
            after_seq(Line(after_seq=text))
