"""Own the search for the line of a TOML text at which something stands, since its reader keeps none. Pure.

A guess, for people: a key in a text of several lines may be taken for one.
"""

from __future__ import annotations

import re

_TABLE = re.compile(r"\s*\[+([^\[\]]+)\]")
_KEY = re.compile(r"\s*([^\s=#\[\]{}][^=#\[\]{}]*?)\s*=")


def line_of(text: str, *place: str) -> int | None:
    """Return the number of the line that comes nearest to a place; the first of several.

    Args:
        place: names from the outermost table to the key; that of a table alone is its heading's.
    """
    table: tuple[str, ...] = ()
    found: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _TABLE.match(line):
            table = here = _names(heading[1])
        elif key := _KEY.match(line):
            here = table + _names(key[1])
        else:
            continue
        if here == place[: len(here)] and len(here) > found[0]:
            found = len(here), number
    return found[1]


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))
