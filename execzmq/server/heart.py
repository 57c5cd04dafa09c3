"""Own the heartbeat socket: echoes from a thread in C that no work of the server can block."""

from __future__ import annotations

import contextlib
import threading

import zmq

from execzmq.server.termination import terminate
from execzmq.settings import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT


class Heart:
    """A ROUTER that sends back what it gets, in a context and a thread of its own.

    Args:
        endpoints: where to listen.
    """

    def __init__(self, endpoints: list[str]) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, int(HEARTBEAT_INTERVAL * 1000))
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(HEARTBEAT_TIMEOUT * 1000))
        self._socket.setsockopt(zmq.MAXMSGSIZE, 4096)
        for endpoint in endpoints:
            self._socket.bind(endpoint)
        self._thread = threading.Thread(target=self._echo, name="execzmq-heart", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and free the socket; idempotent."""
        terminate(self._context, self._thread)

    def _echo(self) -> None:
        with self._socket, contextlib.suppress(zmq.ContextTerminated):
            zmq.proxy(self._socket, self._socket)
