"""Own what a line asks for: Python's values in it, and the keywords that start its command; pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from execzmq.client.arguments import StartOptions
from execzmq.notebook.arguments import BadLine, Line, values_of, with_values
from execzmq.notebook.expanding import expand
from execzmq.types.params import EnvPolicy

_MOST_DIGITS = 18
"""Of the number of an event."""


def expanded(line: Line, names: Mapping[str, Any]) -> Line:
    """Return the line with the values of its expressions, which see `names`, unless it says `--no-expand`.

    Raises:
        ExpansionError: one cannot be put in.
    """
    if line.no_expand:
        return line

    def evaluate(expression: str) -> object:
        return eval(expression, dict(names))

    values = {
        name: expand(text, evaluate)
        if isinstance(text, str)
        else tuple(expand(one, evaluate) for one in text)
        for name, text in values_of(line).items()
    }
    return with_values(line, values)


def start_options(line: Line, names: Mapping[str, Any], more: Mapping[str, str]) -> StartOptions:
    """Return the keywords of `start` that a line asks for.

    Args:
        names: Python's variables, for `-e NAME`.
        more: variables that the command gets besides.

    Raises:
        BadLine: a value is none that the option takes.
    """
    options: StartOptions = {"name": line.name, "cwd": line.cwd, "sandbox": line.sandbox, "tty": line.tty}
    options["timeout"] = None if line.timeout is None else _seconds(line.timeout)
    if line.interactive:
        options["stdin"] = True
    variables = {**dict(_variable(entry, names) for entry in line.env), **more}
    if variables:
        options["env_policy"] = EnvPolicy(set=variables)
    return options


def after_seq(line: Line) -> int:
    """Return the event after which `--attach` begins.

    Raises:
        BadLine: it is no number.
    """
    text = line.after_seq or "0"
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise BadLine(f"--after-seq takes the number of an event, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise BadLine(f"--timeout takes seconds, more than 0, not {text!r}")
    return seconds


def _variable(entry: str, names: Mapping[str, Any]) -> tuple[str, str | bytes]:
    name, equals, text = entry.partition("=")
    if not name:
        raise BadLine(f"-e takes NAME or NAME=VALUE, not {entry!r}")
    if equals:
        return name, text
    if name not in names:
        raise BadLine(f"-e {name}: there is no Python variable {name}; -e {name}=VALUE gives a value")
    return name, _text(name, names[name])


def _text(name: str, value: object) -> str | bytes:
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, os.PathLike):
        path: str | bytes = os.fspath(value)
        return path
    if isinstance(value, int | float):
        return str(value)
    raise BadLine(
        f"-e {name}: a {type(value).__name__} is no text; -e {name}={{str({name})}} makes one of it"
    )
