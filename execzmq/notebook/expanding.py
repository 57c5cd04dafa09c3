"""Own what `{expression}` means in the line of a magic: Python's value, put in as plain text; pure.

A shell's own `${name}` and `{}` stay as they are, `{{` and `}}` are braces of the command's own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Evaluate = Callable[[str], object]
"""Returns the value of an expression, or raises what that raises."""

_HELP = "write {{ and }} for braces of the command's own, or give --no-expand"
_CONVERSIONS: dict[str, Callable[[object], str]] = {"!r": repr, "!s": str, "!a": ascii}


class ExpansionError(ValueError):
    """An expression cannot be put in; the message is one line that names it and says why."""


def expand(text: str, evaluate: Evaluate) -> str:
    """Return `text` with the value of each expression in its place, as `format` makes text of it.

    `{x!r}` and `{x:.2f}` are what they are in an f-string. The values are not quoted for any shell.

    Raises:
        ExpansionError: one is no expression, or its evaluation fails.
    """
    return "".join(_pieces(text, evaluate))


def end_of_braces(text: str, start: int) -> int:
    """Return the index after what begins with the brace at `start`: an expression, or the brace alone."""
    if text[start : start + 2] in ("{{", "{}"):
        return start + 2
    found = _field(text, start)
    return start + 1 if found is None else found[1]


def _pieces(text: str, evaluate: Evaluate) -> Iterator[str]:
    at = 0
    while at < len(text):
        two = text[at : at + 2]
        if two in ("{{", "}}"):
            yield two[0]
            at += 2
        elif two == "{}":
            yield two
            at += 2
        elif two == "${":
            end = _end_of_parameter(text, at)
            yield text[at:end]
            at = end
        elif two[0] == "{":
            value, at = _value(text, at, evaluate)
            yield value
        else:
            yield two[0]
            at += 1


def _end_of_parameter(text: str, start: int) -> int:
    """Return the index after a shell's `${…}`, which may hold others."""
    depth = 0
    for at in range(start + 1, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at + 1
    return len(text)


def _value(text: str, start: int, evaluate: Evaluate) -> tuple[str, int]:
    found = _field(text, start)
    if found is None:
        end = text.find("}", start)
        shown = text[start:] if end < 0 else text[start : end + 1]
        raise ExpansionError(f"{shown} is no Python expression: {_HELP}")
    (expression, conversion, form), end = found
    shown = text[start:end]
    if _is_literal(expression):
        raise ExpansionError(f"{shown} is a constant: {_HELP}")
    try:
        value = evaluate(expression)
        if conversion:
            value = _CONVERSIONS[conversion](value)
        return format(value, form), end
    except Exception as error:
        raise ExpansionError(f"{shown}: {type(error).__name__}: {error}; {_HELP}") from error


def _field(text: str, start: int) -> tuple[tuple[str, str, str], int] | None:
    """Return expression, conversion and format of the shortest field at `start`, and the index after it."""
    end = text.find("}", start)
    while end >= 0:
        if (parts := _parts(text[start + 1 : end])) is not None:
            return parts, end + 1
        end = text.find("}", end + 1)
    return None


def _parts(field: str) -> tuple[str, str, str] | None:
    """Split a field; the shortest text before a colon that is an expression is the expression."""
    if (whole := _expression(field)) is not None:
        return (*whole, "")
    colon = field.find(":")
    while colon >= 0:
        if (before := _expression(field[:colon])) is not None:
            return (*before, field[colon + 1 :])
        colon = field.find(":", colon + 1)
    return None


def _expression(text: str) -> tuple[str, str] | None:
    """Return an expression and its conversion, if it is one."""
    conversion = text[-2:] if text[-2:] in _CONVERSIONS else ""
    expression = text[: len(text) - len(conversion)].strip()
    try:
        ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # or a NUL byte, or nested too deep
        return None
    return expression, conversion


def _is_literal(expression: str) -> bool:
    """Tell what is more likely a repetition, a brace expansion or a piece of JSON than meant for Python."""
    try:
        ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
