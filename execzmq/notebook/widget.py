"""Own the widget by which a kernel and its pages talk; displayed only where a front end has nothing else.

Importing it needs anywidget. Knows nothing of what is said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anywidget
import ipywidgets  # type: ignore[import-untyped]
import traitlets
from IPython.core.getipython import get_ipython

from execzmq.notebook import assets


class PageWidget(anywidget.AnyWidget):
    """A comm to the pages of a kernel, open from its construction on.

    Args:
        token: tells it from those of other kernels.
        record: HTML that it shows where it is displayed.
    """

    _esm = assets.assets()[assets.HUB].decode()
    token = traitlets.Unicode().tag(sync=True)
    record = traitlets.Unicode().tag(sync=True)

    def __init__(self, token: str, receive: Callable[[Any, list[Any]], None], record: str = "") -> None:
        self._sending = threading.Lock()
        super().__init__(token=token, record=record)
        self.on_msg(lambda _widget, content, buffers: receive(content, buffers))

    def open(self) -> None:
        """Open the comm; at construction."""
        comm: Any = self.comm  # type: ignore[has-type]
        if comm is None and hasattr(get_ipython(), "kernel"):
            from execzmq.notebook.comms import PageComm

            self.comm = PageComm(
                target_name="jupyter.widget",
                data={"state": self.get_state(), "buffer_paths": []},
                metadata={"version": ipywidgets.__protocol_version__},
            )
        super().open()

    def tell(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Send a message to the pages; usable from any thread."""
        with self._sending:
            self.send(content, buffers)
