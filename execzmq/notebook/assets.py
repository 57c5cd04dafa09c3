"""Own the files that a page asks for: which there are, and their bytes; nothing else is served."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

SUFFIXES = (".js", ".mjs", ".css")
HUB = "hub.js"
"""What the page runs first; it asks for the others."""


@cache
def assets() -> dict[str, bytes]:
    """Return the files of `static/` by their names, those of folders as `folder/file`."""
    return dict(_files(resources.files("execzmq.notebook") / "static", ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIXES):
            found.append((f"{prefix}{entry.name}", entry.read_bytes()))
    return found
