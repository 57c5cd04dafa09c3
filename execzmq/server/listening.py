"""Own whether the sockets listen on tcp: while that is wanted, and there are an address and descriptors."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from collections.abc import Callable

import zmq

from execzmq.errors import ConnectionFailed
from execzmq.server.network import Network
from execzmq.server.sockets import Sockets

log = logging.getLogger("execzmq.server")

_LOOK = 0.1
"""Seconds from one look at the descriptors to the next, while connections may come."""
_RESERVE = 256
"""Descriptors that are kept for the server's own work, at most a quarter of all."""

_ENDLESS = 1 << 30


class Listening:
    """The endpoints on tcp.

    Args:
        on_bound: called with the network, its ports known, when the sockets listen anew.
    """

    def __init__(self, sockets: Sockets, on_bound: Callable[[Network], None]) -> None:
        self.network: Network | None = None
        self._sockets = sockets
        self._on_bound = on_bound
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_short = False
        self._said = ""

    @property
    def is_open(self) -> bool:
        """Tell whether the sockets listen."""
        return self._timer is not None

    def open(self, network: Network) -> None:
        """Listen.

        Raises:
            ConnectionFailed: it cannot.
        """
        try:
            ports = self._sockets.open_network(network)
        except zmq.ZMQError as error:
            place = ", ".join(str(port) for port in network.ports if port) or "any port"
            message = f"the server cannot listen on tcp at {network.ip} ({place}): {error.strerror}"
            remedy = "end what has its ports, or name another address by `execzmq serve --ip`"
            raise ConnectionFailed(f"{message}; {remedy}") from None
        self.network = Network(network.ip, ports, network.secretkey)
        self._is_short, self._said = False, ""
        self._timer = self._loop.call_later(_LOOK, self._check)
        self._on_bound(self.network)
        log.info("listening on tcp at %s", self.network.endpoint("shell"))

    def close(self) -> None:
        """Listen no more, and end every connection that has come that way; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._sockets.close_network()

    def look(self, wanted: Network | None) -> None:
        """Come nearer to what is wanted: listen where that could not be before, or listen no more."""
        if wanted is None:
            if self.is_open:
                log.info("listening on tcp no more: nobody may come in")
            self.close()
            return
        if self.is_open or (self._is_short and _free() < 2 * _reserve()):
            return
        try:
            self.open(wanted)
        except ConnectionFailed as error:
            if str(error) != self._said:
                log.error("%s; it is tried again each second", error)
            self._said = str(error)

    def _check(self) -> None:
        """Give up the endpoints while there is hardly a descriptor left: libzmq would try on, and in vain."""
        if not _is_short():
            self._timer = self._loop.call_later(_LOOK, self._check)
            return
        log.error("descriptors run out: not listening on tcp until there are some; the limit is %d", _limit())
        self.close()
        self._is_short = True


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENDLESS if soft == resource.RLIM_INFINITY else soft


def _reserve() -> int:
    return min(_RESERVE, _limit() // 4)


def _free() -> int:
    """Return how many descriptors are left."""
    try:
        return _limit() - len(os.listdir("/dev/fd"))
    except OSError:
        return 0


def _is_short() -> bool:
    """Tell whether hardly any descriptor is left: the least free number has all below it in use."""
    try:
        lowest = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    os.close(lowest)
    return lowest >= _limit() - _reserve()
