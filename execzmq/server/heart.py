"""Own the heartbeat socket: echoes from a thread in C that no work of the server can block."""

from __future__ import annotations

import contextlib
import threading

import zmq

from execzmq.server.auth import IPC_DOMAIN, Admission, Gatekeeper
from execzmq.server.network import Network, listen
from execzmq.server.termination import terminate
from execzmq.settings import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT


class Heart:
    """A ROUTER that sends back what it gets, in a context and a thread of its own.

    Args:
        endpoints: where to listen besides the network.
        admission: who may come in by tcp.
        network: where to listen on tcp; `None` = nowhere.

    Attributes:
        network_endpoint: the one on tcp, empty where there is none.

    Raises:
        zmq.ZMQError: it cannot listen there; nothing is left.
    """

    def __init__(self, endpoints: list[str], admission: Admission, network: Network | None = None) -> None:
        self._context = zmq.Context()
        gatekeeper = Gatekeeper(self._context, admission)
        gatekeeper.start()
        self._threads = [gatekeeper.thread]
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.setsockopt(zmq.ZAP_DOMAIN, IPC_DOMAIN.encode())
        self._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, int(HEARTBEAT_INTERVAL * 1000))
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(HEARTBEAT_TIMEOUT * 1000))
        self._socket.setsockopt(zmq.MAXMSGSIZE, 4096)
        try:
            for endpoint in endpoints:
                self._socket.bind(endpoint)
            self.network_endpoint = listen(self._socket, network, "hb") if network is not None else ""
        except zmq.ZMQError:
            self._socket.close()
            self.close()
            raise
        thread = threading.Thread(target=self._echo, name="execzmq-heart", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End the threads and free the socket; idempotent."""
        terminate(self._context, *self._threads)

    def _echo(self) -> None:
        with self._socket, contextlib.suppress(zmq.ContextTerminated):
            zmq.proxy(self._socket, self._socket)
