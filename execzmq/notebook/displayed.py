"""Own how a process is shown without a magic: in a notebook's cell, or wherever widgets are displayed."""

from __future__ import annotations

import contextvars
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from execzmq.client.sync import Process
from execzmq.errors import ExecZMQError
from execzmq.notebook import hubs, record
from execzmq.notebook.clients import Clients
from execzmq.notebook.page import Hub
from execzmq.notebook.record import Kind
from execzmq.notebook.views import record_of, view_of
from execzmq.types.results import ExitResult

if TYPE_CHECKING:
    from execzmq.notebook.widget import PageWidget


class Displayed:
    """A process as a notebook shows it: what `execzmq.notebook.show` returns.

    In a Jupyter kernel its display is a record that pages bring to life; it stays, and says how it ended.
    """

    def __init__(self, process: Process, on: str | None) -> None:
        self._process = process
        self._on = on
        self._clients = Clients()

    @property
    def _kind(self) -> Kind:
        return "terminal" if self._process.info().tty else "view"

    @cached_property
    def widget(self) -> PageWidget:
        """The process as an anywidget, live wherever that is displayed, and gone with its kernel.

        Raises:
            ImportError: anywidget is not installed.
        """
        from execzmq.notebook.widget import PageWidget

        hub = Hub(lambda content, buffers: widget.tell(content, buffers), self._clients.get)
        hub.know(self._process)
        html = record.to_html(record_of(self._process, self._kind, self._on, hub))
        widget = PageWidget(hub.token, hub.receive, html)
        return widget

    def _display_(self) -> Any:
        """Say what marimo shows."""
        return self.widget

    def _ipython_display_(self) -> None:
        if hasattr(get_ipython(), "kernel"):
            hubs.open_hub(self._clients.get)
        view = view_of(self._process, kind=self._kind, on=self._on)
        view.begin()

        def follow() -> None:
            view.end(_end_of(self._process))

        # In the cell's context, so that what is shown later is of that cell.
        target = contextvars.copy_context().run
        threading.Thread(target=target, args=(follow,), name="execzmq-shown", daemon=True).start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._process.process_id}>"


def _end_of(process: Process) -> ExitResult | None:
    try:
        return process.wait(closed=True)
    except ExecZMQError:
        return None
