"""Own how a terminal's screen becomes lines of text with colours, for a record that stays.

Needs the emulator; where there is none for this machine there is no picture.
"""

from __future__ import annotations

import re
from typing import Any

_REPEAT = re.compile(r"(?:\x1b\[|\x9b)[^@-~]*b")
"""What no screen that is told has; much of it, from a hostile server, would keep the emulator busy."""


def picture(data: bytes, rows: int, cols: int) -> str:
    """Return what stands on a screen, line by line with ANSI colours; empty where that cannot be told.

    Args:
        data: brings an empty terminal of that size to the screen, as `Process.screen` returns it.
    """
    try:
        from avt import Vt  # type: ignore[attr-defined]  # it has no stubs
    except ImportError:
        return ""
    terminal = Vt(cols, rows, 0)
    try:
        terminal.feed_str(_REPEAT.sub("", data.decode("utf-8", "replace")))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # the emulator's own failure, which is no Exception
            raise
        return ""
    return "\n".join(_line(line) for line in terminal.view()).rstrip()


def _line(line: Any) -> str:
    text, last = [], "0"
    for cell in line.cells:
        if cell.width == 0:  # the second half of a wide letter
            continue
        code = _codes(cell.pen)
        text.append(cell.char if code == last else f"\x1b[{code}m{cell.char}")
        last = code
    whole = "".join(text)
    return whole.rstrip() if last == "0" else f"{whole}\x1b[m"


def _codes(pen: Any) -> str:
    """Return the SGR codes of a pen, beginning with a reset."""
    flags = (
        (pen.bold, "1"),
        (pen.faint, "2"),
        (pen.italic, "3"),
        (pen.underline, "4"),
        (pen.inverse, "7"),
    )
    codes = [code for has, code in flags if has]
    return ";".join(["0", *codes, *_colour(pen.foreground, 38), *_colour(pen.background, 48)])


def _colour(colour: Any, kind: int) -> list[str]:
    if colour is None:
        return []
    if hasattr(colour, "_1"):
        return [f"{kind};2;{colour._0};{colour._1};{colour._2}"]
    return [f"{kind};5;{colour._0}"]
