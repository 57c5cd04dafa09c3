"""Own the way of text into one cell: two streams, and a line break after another process's unfinished line.

Bound to the streams as they are when it is made: what comes later goes where the cell's own text went.
"""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from typing import TextIO

from execzmq.types.events import Stream

_MOST_CELLS = 256
"""Cells of which is remembered who has written last."""

_last: OrderedDict[tuple[int, str], str] = OrderedDict()
"""Cell and stream → the process whose line is unfinished there; empty = nobody's."""


class Outlet:
    """Where one process's text goes.

    Args:
        source: the process's id.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._files: dict[Stream, TextIO] = {"stdout": sys.stdout, "stderr": sys.stderr}

    def write(self, stream: Stream, text: str) -> None:
        """Write and flush; what cannot be written any more is dropped."""
        file = self._files[stream]
        cell = (id(file), _cell_of(file))
        if _last.get(cell, self._source) not in ("", self._source):
            text = f"\n{text}"
        with contextlib.suppress(OSError, ValueError):  # closed: the shell is ending
            file.write(text)
            file.flush()
        _last[cell] = "" if text.endswith("\n") else self._source
        _last.move_to_end(cell)
        if len(_last) > _MOST_CELLS:
            _last.popitem(last=False)


def _cell_of(file: TextIO) -> str:
    """Return the id of the cell that a kernel's stream writes to from this thread; else it is empty."""
    header = getattr(file, "parent_header", None)
    return str(header.get("msg_id", "")) if isinstance(header, dict) else ""


def say(text: str) -> None:
    """Write a line of ours to the cell that runs now."""
    with contextlib.suppress(OSError, ValueError):
        print(f"execzmq: {text}", file=sys.stderr, flush=True)  # noqa: T201  # a notebook's way to speak
