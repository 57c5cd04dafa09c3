"""How the line of the magic is read."""

import pytest

from execzmq.notebook.arguments import (
    OPTIONS,
    BadLine,
    Line,
    being_typed,
    check,
    check_values,
    read_line,
    usage,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo  'a  b' \"$x\" --bg ", Line(command="echo  'a  b' \"$x\" --bg")),
        ("--bg --name n  make -j4", Line(bg=True, name="n", command="make -j4")),
        ("--name=n x", Line(name="n", command="x")),
        ("--cwd 'a b'\\ c\"d\" x", Line(cwd="a b cd", command="x")),
        ("-e A=1 --env B='x y' -e C -- -e", Line(env=("A=1", "B=x y", "C"), command="-e")),
        ("-e A={d['k'] + ' '} x", Line(env=("A={d['k'] + ' '}",), command="x")),
        (
            "--out a --err b --proc c --no-raise-error x",
            Line(out="a", err="b", proc="c", no_raise_error=True, command="x"),
        ),
        (
            "-t -i --no-expand --detach-on-interrupt x",
            Line(tty=True, interactive=True, no_expand=True, detach_on_interrupt=True, command="x"),
        ),
        ("--attach p --after-seq 7", Line(attach="p", after_seq="7")),
        ("", Line()),
    ],
)
def test_line_is_read(line: str, expected: Line) -> None:
    """Options come first; the rest is the command, character by character."""
    assert read_line(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--tiemout 3 x", "no option --tiemout: did you mean --timeout?"),
        ("-x y", "no option -x: --help lists the options"),
        ("--name", "--name takes N"),
        ("--bg=1 x", "--bg takes no value"),
        ("--name a --name b x", "--name is given twice"),
        ("--name 'a x", 'the quote in "\'a x" has no end'),
    ],
)
def test_bad_line_is_told(line: str, message: str) -> None:
    """One line says what is wrong, and what helps."""
    with pytest.raises(BadLine) as caught:
        read_line(line)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("line", "is_cell", "message"),
    [
        ("", False, "no command"),
        ("python3", True, "'python3' is not an option"),
        ("--attach p x", False, "--attach shows a process that is there: give it no command"),
        ("--attach p --name n", False, "--attach shows a process that is there: leave out --name"),
        ("--after-seq 3 x", False, "--after-seq goes with --attach"),
        ("--bg --out v x", False, "--bg goes on before there is output"),
        ("--tty --out v x", False, "--tty shows a terminal"),
    ],
)
def test_what_does_not_go_together(line: str, is_cell: bool, message: str) -> None:
    """What contradicts itself is refused before anything runs."""
    with pytest.raises(BadLine, match=message):
        check(read_line(line), is_cell=is_cell)


@pytest.mark.parametrize("name", ["1x", "a-b", "a.b", "class", "a b"])
def test_results_go_into_variables(name: str) -> None:
    """What no variable can be called is refused, as where the name was forgotten."""
    for option in ("out", "err", "proc"):
        with pytest.raises(BadLine, match=f"--{option} takes the name of a variable, not '{name}'"):
            check_values(read_line(f"--{option} '{name}' true"))
    check_values(read_line("--out größe --proc _p true"))


def test_cell_and_attach_are_fine() -> None:
    """A cell needs no command in its line, nor does `--attach`."""
    check(read_line("--bg"), is_cell=True)
    check(read_line("--attach p --bg"), is_cell=False)


@pytest.mark.parametrize(
    ("line", "option", "fragment"),
    [
        ("--na", None, "--na"),
        ("", None, ""),
        ("--bg --name n --o", None, "--o"),
        ("--on g", "--on", "g"),
        ("--on ", "--on", ""),
        ("--bg --attach tr", "--attach", "tr"),
        ("--name=x --on ", "--on", ""),
    ],
)
def test_what_is_being_typed(line: str, option: str | None, fragment: str) -> None:
    """At the end of a line stands an option, or the value of one."""
    typed = being_typed(line)
    assert typed is not None
    found, text = typed
    assert (found and found.names[-1], text) == (option, fragment)


@pytest.mark.parametrize("line", ["ls --det", "--bg make -", "-- --na", "--name 'a"])
def test_command_is_not_completed(line: str) -> None:
    """Words of the command are none of the magic's."""
    assert being_typed(line) is None


def test_help_has_every_option() -> None:
    """Each option stands in the help with its line, none of which is too wide."""
    text = usage()
    assert all(option.shown in text and option.help in text for option in OPTIONS)
    assert max(map(len, text.splitlines())) <= 98  # JupyterLab breaks longer ones beside its side bar
    assert {option.field for option in OPTIONS} == {name for name in Line.__slots__ if name != "command"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Line(attach=""), "--attach takes PROCESS, which is empty here"),
        (Line(on="", command="x"), "--on takes ENV, which is empty here"),
        (Line(out="a b", command="x"), "--out takes the name of a variable, not 'a b'"),
        (Line(proc="class", command="x"), "--proc takes the name of a variable, not 'class'"),
        (Line(out="a", err="a", command="x"), "--out, --err and --proc take a variable each"),
    ],
)
def test_bad_value_is_told(line: Line, message: str) -> None:
    """Also where an expression has made it; nothing is started then."""
    with pytest.raises(BadLine) as caught:
        check_values(line)
    assert str(caught.value) == message


def test_good_values_pass() -> None:
    """What is not given is no value."""
    check_values(Line(command="x"))
    check_values(Line(name="n", env=("A=",), out="a", err="b", proc="c", command="x"))
