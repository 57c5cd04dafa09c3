"""Own what a page shows of a process besides its output: the seam between a cell and its record or live view.

A cell calls what is here from one thread at a time, in the context of its own execution, so that what is
displayed stands under that cell. It never asks what a view is made of.
"""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from execzmq.client.sync import Process
from execzmq.errors import ExecZMQError
from execzmq.notebook import hubs, places, record
from execzmq.notebook.page import Hub
from execzmq.notebook.pictures import picture
from execzmq.notebook.record import Kind as Kind
from execzmq.notebook.record import Record
from execzmq.types.params import TtySize
from execzmq.types.results import ExitResult

WRITE_EVERY = 1.0
"""Seconds between two writings of a record while the process runs."""
WATCHED_WRITE_EVERY = 5.0
"""The same while a page shows it live: that knows more than the record, and is disturbed by a new one."""


class CellView(Protocol):
    """Shows one process under one cell, from `begin` to `end`; no method blocks or raises."""

    def begin(self) -> None:
        """Display it; once, before anything else."""

    def shown(self, seq: int) -> None:
        """Take note that the cell has shown the output up to the event `seq`."""

    def end(self, result: ExitResult | None) -> None:
        """Show how the process ended; `None` where it was left running or its server is lost."""


def view_of(
    process: Process, *, kind: Kind, on: str | None = None, begins_with: TtySize | None = None
) -> CellView:
    """Return what shows a process under the cell that runs now.

    Args:
        kind: `view` has the output above it, `terminal` is the output.
        on: the environment that the process runs in, as `--on` names it; `None` = the default server.
        begins_with: size of its terminal at the start, of which the page is to see all; `None` = it sees the
            screen as it is, and what follows.
    """
    return RecordView(process, kind, on, hubs.current(), begins_with)


def record_of(process: Process, kind: Kind, on: str | None, hub: Hub | None) -> Record:
    """Return the record of a process as it is now; with little in it where its server does not answer."""
    token = "" if hub is None else hub.token
    plain = Record(process.process_id, process.instance, kind, on=on, hub=token, at=time.time())
    with suppress(ExecZMQError):
        info = process.info()
        return replace(plain, argv=info.argv, name=info.name, result=info.ending("exited"))
    return plain


class RecordView:
    """A record that is written anew while the process runs, at intervals, and when it ends.

    Args:
        hub: makes it live in a page; `None` = nothing does.
        begins_with: as for `view_of`.
    """

    def __init__(
        self,
        process: Process,
        kind: Kind,
        on: str | None,
        hub: Hub | None,
        begins_with: TtySize | None = None,
    ) -> None:
        self._process = process
        self._kind = kind
        self._on = on
        self._hub = hub
        self._begins_with = begins_with
        self._record: Record
        self._display_id = f"execzmq-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._written_at = 0.0
        self._is_due = self._is_over = False

    def begin(self) -> None:
        """Display it; once, before anything else."""
        if self._hub is not None:
            self._hub.begun(self._process, self._begins_with)
        self._record = record_of(self._process, self._kind, self._on, self._hub)
        self._written_at = time.monotonic()
        self._write(is_new=True)

    def shown(self, seq: int) -> None:
        """Take note that the cell has shown the output up to the event `seq`."""
        if seq <= self._record.seq:
            return
        self._record = replace(self._record, seq=seq)
        if self._hub is not None:
            self._hub.shown(self._process, seq)
        if not self._is_due and self._kind == "view":  # a terminal is shown as it is, from no event on
            self._is_due = True
            self._process.portal.post(self._write_later)

    def end(self, result: ExitResult | None) -> None:
        """Show how the process ended; `None` where it was left running or its server is lost."""
        screen = self._screen() if result is not None and self._kind == "terminal" else ""
        with self._lock:
            self._is_over = True
            self._record = replace(self._record, result=result, screen=screen, at=time.time())
            self._write()
        if self._hub is not None and result is not None:
            self._hub.ended(self._process, _data(self._record))

    def _write_later(self) -> None:
        """Write the record when the interval is over; on the loop of the process's client."""
        is_watched = self._hub is not None and self._hub.is_watched(self._process)
        pause = self._written_at + (WATCHED_WRITE_EVERY if is_watched else WRITE_EVERY) - time.monotonic()
        self._process.portal.loop.call_later(max(pause, 0.0), self._write_if_due)

    def _write_if_due(self) -> None:
        with self._lock:
            self._is_due = False
            if not self._is_over:
                self._record = replace(self._record, at=time.time())
                self._written_at = time.monotonic()
                self._write()

    def _write(self, *, is_new: bool = False) -> None:
        (places.show if is_new else places.update)(_data(self._record), self._display_id)

    def _screen(self) -> str:
        with suppress(ExecZMQError):
            screen = self._process.screen()
            return picture(screen.data, screen.rows, screen.cols)
        return ""


def _data(written: Record) -> dict[str, str]:
    return {"text/plain": record.to_text(written), "text/html": record.to_html(written)}
