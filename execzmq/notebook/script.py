"""Own how the lines of a cell become a command: bash reads them as a file, and stdin stays free; pure.

They travel as variables. A command line is seen by every user of the machine, and no argument may be larger
than 128 KiB; what is written to stdin a terminal would echo, and would have to be told from the user's own.
The shell that is started writes them to a file, removes its name, and becomes bash with that file opened.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from execzmq.errors import InvalidRequest

MOST = 1 << 20
"""Bytes that the lines of one cell may have: all variables together must fit into what Linux lets through."""

_PIECE = 30_000
"""Characters in one variable, which are at most 120,000 bytes."""
_RUN = "EXECZMQ_CELL"
_EVAL = f'eval "${_RUN}"'


def script_command(body: str, label: str) -> tuple[list[str], dict[str, str]]:
    """Return the argv that runs a script, and the variables that it needs.

    Args:
        label: what listings show of it.

    Raises:
        InvalidRequest: it holds a NUL character, or is too large.
    """
    size = len(body.encode(errors="surrogateescape"))
    if "\0" in body:
        raise InvalidRequest("embedded null character in the cell")
    if size > MOST:
        raise InvalidRequest(f"the cell has {size:,} bytes, {MOST:,} can be passed on: put it into a file")
    pieces = [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)]
    names = [f"{_RUN}_{number}" for number in range(1, len(pieces) + 1)]
    variables = dict(zip(names, pieces, strict=True))
    return ["/bin/sh", "-c", _EVAL, label], {_RUN: _preamble(names), **variables}


def written(argv: Sequence[str]) -> str:
    """Return a command as its user wrote it: a line, the name of a cell, or words as one would type them."""
    match argv:
        case ["/bin/sh", "-c", line]:
            return line
        case ["/bin/sh", "-c", line, label] if line == _EVAL:
            return label
    return shlex.join(argv)


def _preamble(names: Sequence[str]) -> str:
    """Return what the shell does first.

    The script itself closes the descriptor by which it is opened, so that no command of it inherits that.
    """
    text = "".join(f'"${{{name}}}"' for name in names)
    return "\n".join(
        (
            "file=$(mktemp) || exit",
            f"printf '%s' 'exec 9<&-; '{text} >\"$file\" || exit",
            'exec 9<"$file"',
            'rm -f "$file"',
            f"unset file {_RUN} {' '.join(names)}",
            "if command -v bash >/dev/null; then exec bash /dev/fd/9; else exec sh /dev/fd/9; fi",
        )
    )
