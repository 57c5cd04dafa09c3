"""Own the server's ZeroMQ sockets: their options, their endpoints, and the end of them.

Knows nothing of what the messages mean. Each socket listens at its ipc endpoint, and on tcp where that is
wanted: libzmq takes the security of an endpoint when it is bound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import zmq

from execzmq.server.auth import IPC_DOMAIN, Admission, Gatekeeper
from execzmq.server.heart import Heart
from execzmq.server.network import CHANNELS, Network, listen, port_of
from execzmq.server.termination import terminate
from execzmq.settings import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, MAX_MESSAGE, MAX_SUBSCRIPTION, XPUB_HWM
from execzmq.zmqloop import Frames, ZmqPort

REQUEST_SOCKETS = ("shell", "control", "stdin")
_ROUTER_HWM = 1000
_LINGER = 0.5
"""Seconds that what is unsent at the end has to leave."""


@dataclass(slots=True, frozen=True)
class Endpoints:
    """Where each of the five sockets listens."""

    shell: tuple[str, ...]
    control: tuple[str, ...]
    stdin: tuple[str, ...]
    iopub: tuple[str, ...]
    hb: tuple[str, ...]


class Sockets:
    """The five sockets of a server, bound; requests and subscriptions go to callbacks.

    Args:
        endpoints: where to listen.
        on_request: called with the name of the socket and the frames of a request.
        on_subscription: called with the one frame of a subscription or of the end of one; what it decides
            must be applied before it returns.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        on_request: Callable[[str, Frames], None],
        on_subscription: Callable[[zmq.Frame], None],
    ) -> None:
        self._context = zmq.Context()
        self.admission = Admission()
        self._gatekeeper = Gatekeeper(self._context, self.admission)
        self._gatekeeper.start()
        self._endpoints = endpoints
        self.requests: dict[str, ZmqPort] = {}
        self._heart = Heart(list(endpoints.hb), self.admission)
        self._network: Network | None = None
        self._on_network: dict[str, str] = {}
        xpub = self._bind(zmq.XPUB, endpoints.iopub, XPUB_HWM)
        self.iopub = ZmqPort(xpub, lambda frames: on_subscription(frames[0]), turn=100)
        for name in REQUEST_SOCKETS:
            socket = self._bind(zmq.ROUTER, getattr(endpoints, name), _ROUTER_HWM)
            self.requests[name] = ZmqPort(socket, partial(on_request, name))
        everywhere = itertools.chain.from_iterable(dataclasses.astuple(endpoints))
        self._files = {_path(endpoint): _file(endpoint) for endpoint in everywhere if _path(endpoint)}

    def bind_lost(self) -> list[str]:
        """Bind anew the endpoints whose files were removed, and return their paths; all connections stay.

        Raises:
            zmq.ZMQError: one cannot be bound.
        """
        lost = []
        for name, port in self._ports().items():
            for endpoint in self._lost(name):
                port.bind_again(endpoint)
                lost.append(self._note(endpoint))
        if gone := self._lost("hb"):
            self._renew_heart(self._network)
            lost += gone
        return lost

    def open_network(self, network: Network) -> tuple[int, ...]:
        """Listen on tcp, too; return the ports in the order of `CHANNELS`.

        Raises:
            zmq.ZMQError: one endpoint cannot be bound; none is.
        """
        try:
            for name, port in self._ports().items():
                self._on_network[name] = port.bind(partial(listen, network=network, channel=name))
            self._renew_heart(network)
        except zmq.ZMQError:
            self.close_network()
            raise
        self._network = network
        bound = {**self._on_network, "hb": self._heart.network_endpoint}
        return tuple(port_of(bound[name]) for name in CHANNELS)

    def close_network(self) -> None:
        """Listen on tcp no more, and end the connections that have come that way; idempotent."""
        ports = self._ports()
        while self._on_network:
            name, endpoint = self._on_network.popitem()
            ports[name].bind(partial(_unbind, endpoint=endpoint))
        if self._heart.network_endpoint:
            self._renew_heart(None)
        self._network = None

    def _ports(self) -> dict[str, ZmqPort]:
        return {"iopub": self.iopub, **self.requests}

    def _renew_heart(self, network: Network | None) -> None:
        """Begin the heart anew: its socket is its thread's. Whoever hears it connects again by itself."""
        self._heart.close()
        try:
            self._heart = Heart(list(self._endpoints.hb), self.admission, network)
        except zmq.ZMQError:
            self._heart = Heart(list(self._endpoints.hb), self.admission)
            raise
        finally:
            for endpoint in self._endpoints.hb:
                self._note(endpoint)

    def _lost(self, name: str) -> list[str]:
        found = []
        for endpoint in getattr(self._endpoints, name):
            path = _path(endpoint)
            if path and _file(endpoint) != self._files[path]:
                found.append(endpoint)
        return found

    def _note(self, endpoint: str) -> str:
        path = _path(endpoint)
        self._files[path] = _file(endpoint)
        return path

    def admit(self, topic: bytes) -> None:
        """Let the sender of the subscription that is being handled have a topic."""
        self.iopub.socket.setsockopt(zmq.SUBSCRIBE, topic)

    def dismiss(self, topic: bytes) -> None:
        """Take a topic from the sender of the end of subscription that is being handled."""
        self.iopub.socket.setsockopt(zmq.UNSUBSCRIBE, topic)

    def close(self) -> None:
        """Send what is on its way, as far as half a second allows, then close everything; idempotent."""
        for port in (*self.requests.values(), self.iopub):
            port.close(_LINGER)
        terminate(self._context, self._gatekeeper.thread)
        self._heart.close()
        for path in self._files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _bind(self, kind: int, endpoints: tuple[str, ...], hwm: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        # A listener keeps the options of its `bind`. Messages for a client that goes while the socket is
        # being closed linger as these say, and by default that is without end.
        socket.linger = int(1000 * _LINGER)
        socket.setsockopt(zmq.ZAP_DOMAIN, IPC_DOMAIN.encode())
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        socket.setsockopt(zmq.SNDHWM, hwm)
        # What comes in there are subscriptions, and libzmq keeps each of them.
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_SUBSCRIPTION if kind == zmq.XPUB else MAX_MESSAGE)
        socket.setsockopt(zmq.HEARTBEAT_IVL, int(HEARTBEAT_INTERVAL * 1000))
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(HEARTBEAT_TIMEOUT * 1000))
        if kind == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_MANUAL, 1)
        else:
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        for endpoint in endpoints:
            socket.bind(endpoint)
        return socket


def _unbind(socket: zmq.Socket[bytes], endpoint: str) -> None:
    socket.unbind(endpoint)


def _path(endpoint: str) -> str:
    """Return the path of an ipc endpoint, of another one nothing."""
    return endpoint[6:] if endpoint.startswith("ipc://") else ""


def _file(endpoint: str) -> tuple[int, int] | None:
    """Return which file an ipc endpoint is at the moment, `None` where there is none."""
    try:
        status = os.lstat(_path(endpoint))
    except OSError:
        return None
    return status.st_dev, status.st_ino
