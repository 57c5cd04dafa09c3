"""Own what the proxies of a backend's sandboxes share, and what is told of what they refuse."""

from __future__ import annotations

import asyncio
import socket

from execzmq.backends.judging import Circumstances
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox.denials import Denial
from execzmq.sandbox.dialing import Dialer, Resolver
from execzmq.sandbox.hosts import parse_pattern
from execzmq.sandbox.proxy import CONNECTIONS_IN_ALL, Proxy

_MOST_TOLD = 1000
"""Refused hosts that are remembered of one command."""


class Proxies:
    """Serves sandboxes that reach what their profile allows, and nothing else."""

    def __init__(self) -> None:
        self._resolver: Resolver | None = None
        self._room = asyncio.Semaphore(CONNECTIONS_IN_ALL)

    def serve(self, process: ManagedProcess, listener: int, around: Circumstances) -> None:
        """Serve a sandbox at a listener in its network, which is the proxy's from now on."""
        patterns = [parse_pattern(text) for text in around.permissions.network.hosts]
        if self._resolver is None:
            self._resolver = Resolver()
        dialer = Dialer(patterns, self._resolver.look_up)

        def denied(denial: Denial) -> None:
            _tell(process, around, denial)

        around.proxy = Proxy(socket.socket(fileno=listener), dialer, denied, self._room)

    def close(self) -> None:
        """Look up no names any more; idempotent."""
        if self._resolver is not None:
            self._resolver.close()
            self._resolver = None


def _tell(process: ManagedProcess, around: Circumstances, denial: Denial) -> None:
    """Record a refusal: it is certain, where the words of the command are not."""
    name = f"{denial.host}:{denial.port}"
    if name not in around.refused_hosts and len(around.refused_hosts) < _MOST_TOLD:
        around.refused_hosts.append(name)
    told = {"host": denial.host, "port": denial.port, "reason": denial.reason, "count": denial.count}
    process.notice("network_denied", told)
