"""Own the clients of one shell, one for each environment that was named; knows nothing of magics."""

from __future__ import annotations

import contextlib
import threading

from execzmq import api
from execzmq.client.sync import Client
from execzmq.errors import ExecZMQError


class Clients:
    """Connects at first use, and anew where a server is gone; usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str | None, Client] = {}

    def get(self, on: str | None) -> Client:
        """Return a client for an environment; `None` is the default server.

        Raises:
            ConnectionFailed, and the others of `execzmq.connect`.
        """
        with self._lock:
            client = self._clients.get(on)
            if client is None or not _is_up(client):
                # One that is gone is closed with the last process that is followed through it.
                client = self._clients[on] = api.connect(on)
            return client

    def peek(self, on: str | None) -> Client | None:
        """Return a client that is connected, `None` where there is none; waits for nothing."""
        client = self._clients.get(on)
        return client if client is not None and client.state == "connected" else None

    def drop(self, on: str | None) -> None:
        """Connect anew at the next use: this one's server did not answer."""
        with self._lock:
            self._clients.pop(on, None)

    def warm(self) -> None:
        """Begin to connect to the default server, so that the first cell need not wait for it."""
        threading.Thread(target=self._connect, name="execzmq-warm", daemon=True).start()

    def close(self) -> None:
        """Close them all; what follows a process through one ends with an error. Idempotent."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _connect(self) -> None:
        with contextlib.suppress(ExecZMQError, OSError):  # the first cell is told
            self.get(None).connect()


def _is_up(client: Client) -> bool:
    return client.is_usable and client.state not in ("lost", "failed", "closed")
