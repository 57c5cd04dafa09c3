"""Own the way of text into one cell: two streams, and a line break after another process's unfinished line.

Bound to the streams as they are when it is made: what comes later goes where the cell's own text went.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TextIO

from execzmq.types.events import Stream

_MOST_CELLS = 256
"""Cells of which is remembered who has written last."""

_lock = threading.Lock()


@dataclass(slots=True)
class _Turn:
    """Who wrote last to one stream of a cell.

    Args:
        unfinished: the process whose line is unfinished there; empty = nobody's.
        broken: processes whose unfinished lines were ended by another's beginning.
    """

    unfinished: str = ""
    broken: set[str] = field(default_factory=set)


_turns: OrderedDict[tuple[int, str], _Turn] = OrderedDict()
"""By stream and cell, the one that was written to last at the end."""


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
        with _lock:
            text = _parted((id(file), _cell_of(file)), self._source, text)
            with contextlib.suppress(OSError, ValueError):  # closed: the shell is ending
                file.write(text)
                file.flush()


def _parted(cell: tuple[int, str], source: str, text: str) -> str:
    """Return what is written so that no two sources share a line, and note what is unfinished then."""
    turn = _turns.pop(cell, None) or _Turn()
    if source in turn.broken and text:
        turn.broken.discard(source)
        text = text.removeprefix("\n")  # the end of a line that was ended for it
    if text:
        if turn.unfinished not in ("", source):
            turn.broken.add(turn.unfinished)
            text = f"\n{text}"
        turn.unfinished = "" if text.endswith("\n") else source
    _turns[cell] = turn
    if len(_turns) > _MOST_CELLS:
        _turns.popitem(last=False)
    return text


def _cell_of(file: TextIO) -> str:
    """Return the id of the cell that a kernel's stream writes to from this thread; else it is empty."""
    header = getattr(file, "parent_header", None)
    return str(header.get("msg_id", "")) if isinstance(header, dict) else ""


def say(text: str) -> None:
    """Write a line of ours to the cell that runs now."""
    with contextlib.suppress(OSError, ValueError):
        print(f"execzmq: {text}", file=sys.stderr, flush=True)  # noqa: T201  # a notebook's way to speak
