"""The magics `%execz` and `%%execz`, and what a cell shows: loaded by `%load_ext execzmq`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from execzmq.client.sync import Process
    from execzmq.notebook.displayed import Displayed


def show(process: Process, *, on: str | None = None) -> Displayed:
    """Return what shows a process live, for the last line of a cell or for `display`; no magics are needed.

    A process without a terminal has buttons, a line for its stdin and, when asked for, its output; one with a
    terminal is that terminal. `show(process).widget` is an anywidget, for what displays widgets alone.

    Args:
        process: of any client.
        on: environment that it runs in, as it is to be told in what is kept; `None` = the default server.
    """
    from execzmq.notebook.displayed import Displayed

    return Displayed(process, on)
