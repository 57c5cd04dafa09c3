"""Own a place in the output of a cell, whose content is changed later, whichever cell runs by then."""

from __future__ import annotations

import contextvars
from typing import Any

from IPython.display import display


def show(data: dict[str, Any], display_id: str) -> None:
    """Display under the cell of the caller's context."""
    display(data, raw=True, display_id=display_id)  # type: ignore[no-untyped-call]  # of IPython


def update(data: dict[str, Any], display_id: str) -> None:
    """Put something else in the place of what was displayed.

    In no cell's context, so that it belongs to the one that runs: a page finds the place by its id, and who
    runs a notebook as a file hears of the running cell alone.
    """
    contextvars.Context().run(display, data, raw=True, display_id=display_id, update=True)
