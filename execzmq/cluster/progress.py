"""Own the progress bar of `map`: how many commands wait, run, have ended, and how."""

from __future__ import annotations

import io
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from execzmq.cluster.results import MapResult

_CELL_INTERVAL = 0.1
"""Seconds between two drawings in a notebook, whose page is slower than a terminal."""


class Bar:
    """A bar on stderr, or in a notebook; with `shown` false, nothing. Use it in a `with`.

    Args:
        total: commands.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = total
        self._shown = shown
        self._started = self._done = self._failed = self._lost = 0
        self._progress: Progress | None = None
        self._task: TaskID
        self._cell: _Cell | None = None

    def __enter__(self) -> Bar:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
            )
            console = Console(stderr=True)
            # It is drawn when something happens: a thread that draws would outlive a cancelled call.
            self._progress = Progress(*columns, console=console, auto_refresh=False)
            self._task = self._progress.add_task(self._words(), total=self._total)
            if console.is_jupyter:
                self._cell = _Cell(self._progress)
            else:
                self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cell is not None:
            self._cell.draw(is_last=True)
        elif self._progress is not None:
            self._progress.stop()

    def started(self) -> None:
        """Count a command that has its place."""
        self._started += 1
        self._draw()

    def ended(self, result: MapResult, *, had_place: bool) -> None:
        """Count a command that has ended, or will not be started."""
        self._done += 1
        self._started += not had_place
        self._lost += result.result.cause == "server_lost"
        self._failed += result.result.cause != "server_lost" and result.returncode != 0
        self._draw()

    def _draw(self) -> None:
        if self._progress is None:
            return
        in_terminal = self._cell is None
        self._progress.update(
            self._task, completed=self._done, description=self._words(), refresh=in_terminal
        )
        if self._cell is not None:
            self._cell.draw()

    def _words(self) -> str:
        counts = {
            "waiting": self._total - self._started,
            "running": self._started - self._done,
            "failed": self._failed,
            "lost": self._lost,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


class _Cell:
    """The bar as an output of a cell; not as rich's widget, of which a reopened notebook shows nothing."""

    def __init__(self, progress: Progress) -> None:
        from IPython.display import display

        self._progress = progress
        self._drawn_at = time.monotonic()
        self._handle = display(self._data(), raw=True, display_id=True)  # type: ignore[no-untyped-call]  # of IPython

    def draw(self, *, is_last: bool = False) -> None:
        """Draw it anew, unless that was done just now."""
        now = time.monotonic()
        if is_last or now - self._drawn_at >= _CELL_INTERVAL:
            self._drawn_at = now
            self._handle.update(self._data(), raw=True)

    def _data(self) -> dict[str, str]:
        from rich.console import Console

        page = Console(file=io.StringIO(), force_terminal=True, force_jupyter=False, width=100)
        with page.capture() as captured:
            page.print(self._progress.get_renderable())
        return {"text/plain": captured.get().rstrip("\n")}
