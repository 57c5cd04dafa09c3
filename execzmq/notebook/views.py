"""Own what a page shows of a process besides its output: the seam between a cell and its record or live view.

A cell calls what is here from one thread, in the context of its own execution, so that what is displayed
stands under that cell. It never asks what a view is made of.
"""

from __future__ import annotations

from typing import Literal, Protocol

from IPython.display import display

from execzmq.client.sync import Process
from execzmq.types.results import ExitResult

Kind = Literal["view", "terminal"]


class CellView(Protocol):
    """Shows one process under one cell, from `begin` to `end`; no method blocks or raises."""

    def begin(self) -> None:
        """Display it; once, before anything else."""

    def shown(self, seq: int) -> None:
        """Take note that the cell has shown the output up to the event `seq`."""

    def end(self, result: ExitResult | None) -> None:
        """Show how the process ended; `None` where it was left running or its server is lost."""


def view_of(process: Process, *, kind: Kind, on: str | None = None) -> CellView:
    """Return what shows a process under the cell that runs now.

    Args:
        kind: `view` has the output above it, `terminal` is the output.
        on: the environment that the process runs in, as `--on` names it; `None` = the default server.
    """
    return _Record(process, on)


class _Record:
    """One line of text that is written anew when the process ends."""

    def __init__(self, process: Process, on: str | None) -> None:
        self._process_id = process.process_id
        self._where = "" if on is None else f" --on {on}"

    def begin(self) -> None:
        self._display("running")

    def shown(self, seq: int) -> None:
        pass

    def end(self, result: ExitResult | None) -> None:
        self._display("left running" if result is None else str(result), update=True)

    def _display(self, status: str, *, update: bool = False) -> None:
        attach = f"execzmq attach{self._where} {self._process_id}"
        text = f"{self._process_id}: {status}; `{attach}` shows it in a shell"
        data = {"text/plain": text}
        display(data, raw=True, display_id=self._process_id, update=update)  # type: ignore[no-untyped-call]  # of IPython
