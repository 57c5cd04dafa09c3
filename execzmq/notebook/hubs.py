"""Own the hub of this kernel: whether there is one, and when it begins and ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from execzmq.client.sync import Client
from execzmq.notebook.page import Hub

if TYPE_CHECKING:
    from execzmq.notebook.widget import PageWidget

_lock = threading.Lock()
_open: tuple[Hub, PageWidget] | None = None


def open_hub(connect: Callable[[str | None], Client]) -> Hub | None:
    """Return the kernel's hub, opened at the first call; `None` where anywidget is not installed.

    Args:
        connect: as for `Hub`.
    """
    global _open
    with _lock:
        if _open is None:
            try:
                from execzmq.notebook.widget import PageWidget
            except ImportError:  # records stay as they are written
                return None
            hub = Hub(lambda content, buffers: widget.tell(content, buffers), connect)
            widget = PageWidget(hub.token, hub.receive)
            _open = hub, widget
        return _open[0]


def current() -> Hub | None:
    """Return the kernel's hub, if it has one."""
    return None if _open is None else _open[0]


def close_hub() -> None:
    """Leave the records of all pages to themselves; idempotent."""
    global _open
    with _lock:
        opened, _open = _open, None
    if opened is not None:
        hub, widget = opened
        hub.close()
        widget.close()
