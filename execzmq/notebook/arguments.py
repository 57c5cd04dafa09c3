"""Own the options of `%execz` and how its line is read: options first, then the command as it stands; pure.

Only as much of the line is split into words as options take. What follows them is not touched.
"""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from execzmq.notebook.expanding import end_of_braces


class BadLine(ValueError):
    """The line cannot be read; the message is one line that says what helps."""


@dataclass(slots=True, frozen=True)
class Option:
    """One option.

    Args:
        names: that it has, the last one is that of its field.
        help: one line.
        value: what it takes, as the help shows it; empty = it takes nothing.
        repeats: may be given more than once.
    """

    names: tuple[str, ...]
    help: str
    value: str = ""
    repeats: bool = False

    @property
    def field(self) -> str:
        """The name of what it sets."""
        return self.names[-1].removeprefix("--").replace("-", "_")

    @property
    def shown(self) -> str:
        """The names and the value, as the help has them."""
        return ", ".join(self.names) + (f" {self.value}" if self.value else "")


OPTIONS = (
    Option(("--on",), "Environment or server to run it in.  [default: your own server]", "ENV"),
    Option(("--name",), "A readable name, unique among the living.", "N"),
    Option(("--cwd",), "Working directory of the command.", "DIR"),
    Option(
        ("-e", "--env"),
        "Set a variable; NAME alone has the value of the Python variable.",
        "NAME[=VALUE]",
        True,
    ),
    Option(("--sandbox",), "Permission profile to confine it with.  [default: the server's]", "PROFILE"),
    Option(("--timeout",), "End it and all that it started after S seconds.", "S"),
    Option(("-i", "--interactive"), "Give it a pipe to write to.  [default: it reads nothing]"),
    Option(("-t", "--tty"), "Give it a terminal, shown in the cell."),
    Option(("--bg",), "Go on at once; its output comes under this cell all the same."),
    Option(
        ("--attach",), "Show a process that is there, by its id or name, instead of running one.", "PROCESS"
    ),
    Option(("--after-seq",), "With --attach: begin after this event.  [default: 0, its beginning]", "SEQ"),
    Option(("--out",), "Put its stdout, as text, into this variable instead of showing it.", "VAR"),
    Option(("--err",), "Put its stderr, as text, into this variable instead of showing it.", "VAR"),
    Option(("--proc",), "Put the process into this variable.", "VAR"),
    Option(("--no-raise-error",), "A command that fails is no error."),
    Option(("--detach-on-interrupt",), "An interrupt leaves it running instead of ending it."),
    Option(("--no-expand",), "Leave {…} in the line alone."),
    Option(("--help",), "Show this."),
)
_BY_NAME = {name: option for option in OPTIONS for name in option.names}


@dataclass(slots=True, frozen=True)
class Line:
    """What a line says; words are as they stand in it, without the quotes of the options' values."""

    on: str | None = None
    name: str | None = None
    cwd: str | None = None
    env: tuple[str, ...] = ()
    sandbox: str | None = None
    timeout: str | None = None
    interactive: bool = False
    tty: bool = False
    bg: bool = False
    attach: str | None = None
    after_seq: str | None = None
    out: str | None = None
    err: str | None = None
    proc: str | None = None
    no_raise_error: bool = False
    detach_on_interrupt: bool = False
    no_expand: bool = False
    help: bool = False
    command: str = ""


def read_line(line: str) -> Line:
    """Return what a line says.

    Raises:
        BadLine: an option that there is not, without its value, or given twice; a quote without an end.
    """
    found: dict[str, Any] = {}
    at = _skip_blanks(line, 0)
    while at < len(line) and line[at] == "-":
        word, end = _word(line, at)
        if word == "--":
            at = _skip_blanks(line, end)
            break
        name, equals, value = word.partition("=")
        option = _option(name)
        if option.value and not equals:
            value, end = _value(option, line, _skip_blanks(line, end))
        elif equals and not option.value:
            raise BadLine(f"{name} takes no value")
        _set(found, option, value)
        at = _skip_blanks(line, end)
    return Line(**found, command=line[at:].strip())


def check(line: Line, *, is_cell: bool) -> None:
    """Check that what a line says goes together.

    Raises:
        BadLine: it does not.
    """
    if is_cell and line.command:
        raise BadLine(
            f"{line.command!r} is not an option: the commands of %%execz stand in the lines below it"
        )
    if line.attach is None:
        if line.after_seq is not None:
            raise BadLine("--after-seq goes with --attach PROCESS")
        if not is_cell and not line.command:
            raise BadLine(
                "no command: %execz [OPTIONS] COMMAND, or %execz --attach PROCESS; --help tells more"
            )
    elif is_cell or line.command:
        raise BadLine("--attach shows a process that is there: give it no command")
    elif given := [name for name in _STARTING if getattr(line, name)]:
        raise BadLine(f"--attach shows a process that is there: leave out --{given[0]}")
    if line.bg and (line.out or line.err):
        raise BadLine("--bg goes on before there is output: take --proc VAR, and VAR.lines() reads it")
    if line.tty and (line.out or line.err or line.interactive):
        raise BadLine("--tty shows a terminal: leave out --out, --err and -i")


def check_values(line: Line) -> None:
    """Check the values of options, when those of Python are in them.

    Raises:
        BadLine: one is empty, is no name of a variable where it has to be, or two are the same.
    """
    for option in OPTIONS:
        value = getattr(line, option.field)
        if value == "":
            raise BadLine(f"{option.names[-1]} takes {option.value}, which is empty here")
        if option.value == "VAR" and value is not None and not _is_variable(value):
            raise BadLine(f"{option.names[-1]} takes the name of a variable, not {value!r}")
    variables = [name for name in (line.out, line.err, line.proc) if name is not None]
    if len(set(variables)) < len(variables):
        raise BadLine("--out, --err and --proc take a variable each")


def _is_variable(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


_STARTING = ("name", "cwd", "env", "sandbox", "timeout", "interactive", "tty")
"""What only a command that is started can be given."""


def values_of(line: Line) -> Mapping[str, str | tuple[str, ...]]:
    """Return the texts of a line in which expressions may stand, by the names of their fields."""
    texts = {one.name: getattr(line, one.name) for one in fields(line)}
    return {name: text for name, text in texts.items() if isinstance(text, str | tuple) and text}


def with_values(line: Line, values: Mapping[str, str | tuple[str, ...]]) -> Line:
    """Return the line with other texts."""
    return replace(line, **values)  # type: ignore[arg-type]  # by the names of its fields


def being_typed(line: str) -> tuple[Option | None, str] | None:
    """Return the option whose value is being typed at the end of a line, and what there is of it.

    The option is `None` where its name is being typed; all is `None` where the command has begun.
    """
    at = _skip_blanks(line, 0)
    option: Option | None = None
    while True:
        try:
            word, end = _word(line, at)
        except BadLine:
            return None
        if end >= len(line):
            return option, word
        if option is None and (not word.startswith("-") or word == "--"):
            return None
        option = None if option is not None or "=" in word else _BY_NAME.get(word)
        option = option if option is not None and option.value else None
        at = _skip_blanks(line, end)


def usage() -> str:
    """Return the help: how it is called, and the options."""
    width = max(len(option.shown) for option in OPTIONS)
    rows = "\n".join(f"  {option.shown.ljust(width)}  {option.help}" for option in OPTIONS)
    return f"{_USAGE}\n\nOptions, which stand before the command:\n\n{rows}\n"


_USAGE = """\
%execz [OPTIONS] COMMAND      run a line of the shell
%execz [OPTIONS] --attach P   show a process that is there
%%execz [OPTIONS]             run the cell's lines, by bash where there is one

The command belongs to a server: its output is kept, whoever watches, and other programs can
attach to it. In the line, {expression} is Python's value as plain text, {{ and }} are braces,
and $name is the shell's own; in a cell's lines nothing is put in. Without --bg an interrupt
sends SIGINT, a second one SIGTERM, a third one kills."""


def _option(name: str) -> Option:
    option = _BY_NAME.get(name)
    if option is not None:
        return option
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"did you mean {close[0]}?" if close else "--help lists the options"
    raise BadLine(f"no option {name}: {hint} (-- before a command that begins with a dash)")


def _value(option: Option, line: str, at: int) -> tuple[str, int]:
    if at >= len(line):
        raise BadLine(f"{option.names[-1]} takes {option.value}")
    return _word(line, at)


def _set(found: dict[str, Any], option: Option, value: str) -> None:
    if option.repeats:
        found[option.field] = (*found.get(option.field, ()), value)
    elif option.field in found and option.value:
        raise BadLine(f"{option.names[-1]} is given twice")
    else:
        found[option.field] = value if option.value else True


def _skip_blanks(line: str, at: int) -> int:
    while at < len(line) and line[at].isspace():
        at += 1
    return at


def _word(line: str, at: int) -> tuple[str, int]:
    """Return the word at `at` without its quotes, and the index after it; braces keep blanks together."""
    pieces = []
    while at < len(line) and not line[at].isspace():
        piece, at = _piece(line, at)
        pieces.append(piece)
    return "".join(pieces), at


def _piece(line: str, at: int) -> tuple[str, int]:
    one = line[at]
    if one in "'\"":
        end = line.find(one, at + 1)
        if end < 0:
            raise BadLine(f"the quote in {line[at:]!r} has no end")
        return line[at + 1 : end], end + 1
    if one == "\\" and at + 1 < len(line):
        return line[at + 1], at + 2
    if one == "{":
        end = end_of_braces(line, at)
        return line[at:end], end
    return one, at + 1
