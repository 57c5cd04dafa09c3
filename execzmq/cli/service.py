"""Own what a service manager is told of a server that it has started (`sd_notify`); nobody else hears it."""

from __future__ import annotations

import contextlib
import os
import socket


class Notifier:
    """Tells the manager that this process's variables name, if they do; no child of ours may do the same."""

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def takes_over(self) -> None:
        """Say that this is the service's process from now on, before the one before it ends."""
        self._tell(f"MAINPID={os.getpid()}")

    def is_ready(self) -> None:
        """Say that clients can connect."""
        self._tell(f"READY=1\nMAINPID={os.getpid()}")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), self._address)
