"""Own the way from a target to a connection: looked up once, each address checked, that address dialled.

Between the check and the connection no name is looked up again: an answer that changes (DNS rebinding) is
never seen. It must not know HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any, NoReturn

from execzmq.sandbox.addresses import carried, reason_against
from execzmq.sandbox.hosts import Address, HostPattern, Target, first_match
from execzmq.sandbox.routes import leads_here

Resolve = Callable[[str, int], Coroutine[Any, Any, Sequence[Address]]]
Reason = Callable[[Address, bool], str | None]

_LOOKUP_SECONDS = 20.0
_CONNECT_SECONDS = 10.0
_MOST_ADDRESSES = 4
_THREADS = 16
_LOOKUPS = 4
"""Lookups at once of one sandbox: each holds a thread that others need too."""
_KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}


class Refused(Exception):
    """The target may not be reached.

    Attributes:
        reason: `not listed`, or what its address is.
        address: the address that is refused, `None` where none was looked up.
    """

    def __init__(self, reason: str, address: Address | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address


class Unreachable(Exception):
    """The target may be reached, but is not there.

    Attributes:
        timed_out: it has not answered in time.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


def reason_here(address: Address, listed: bool) -> str | None:
    """Say why an address must not be dialled from this machine now; `None` if it may."""
    reason = reason_against(address, listed=listed)
    if reason is not None:
        return reason
    try:
        is_own = leads_here(carried(address)) or leads_here(address)
    except OSError:
        return "not to be checked"
    return "this machine's own" if is_own else None


class Resolver:
    """Ask the system's resolver, in threads of its own: slow name servers hold up nothing else."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "resolve")

    async def look_up(self, host: str, port: int) -> list[Address]:
        """Return all addresses of a name.

        Raises:
            OSError: there are none, or nobody answers.
        """
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._pool, ask)
        # An address of one link only has a zone behind a percent sign.
        return [ip_address(str(where[0]).partition("%")[0]) for *_, where in found]

    def close(self) -> None:
        """Look up no more; a thread that still waits ends by itself, within the resolver's own limits."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Dialer:
    """Dial for one sandbox.

    Args:
        patterns: what it may reach.
        resolve: names to addresses.
        reason: why an address must not be dialled, if so; told whether its host is listed in full.
    """

    def __init__(
        self, patterns: Sequence[HostPattern], resolve: Resolve, reason: Reason = reason_here
    ) -> None:
        self._patterns = tuple(patterns)
        self._resolve = resolve
        self._reason = reason
        self._room = asyncio.Semaphore(_LOOKUPS)
        self._lookups: set[asyncio.Future[Sequence[Address]]] = set()

    def close(self) -> None:
        """End the lookups that are left."""
        for lookup in self._lookups:
            lookup.cancel()

    async def dial(self, target: Target) -> socket.socket:
        """Connect to a target, and return the socket, the caller's; cancelled, nothing is left.

        Raises:
            Refused: it is not listed, or has no address that may be dialled.
            Unreachable: it has no address, or none that answers.
        """
        pattern = first_match(self._patterns, target)
        if pattern is None:
            self._refuse_unlisted(target)
        addresses = await self._addresses_of(target)
        refused = [(self._reason(address, not pattern.below), address) for address in addresses]
        allowed = [address for reason, address in refused if reason is None]
        if not allowed:
            reason, address = refused[0]
            raise Refused(str(reason), address)
        return await _connect_first(allowed[:_MOST_ADDRESSES], target)

    def _refuse_unlisted(self, target: Target) -> NoReturn:
        """Refuse; an address that would not be dialled either if it were listed is refused as that."""
        if not isinstance(target.host, str) and (reason := self._reason(target.host, True)) is not None:
            raise Refused(reason, target.host)
        raise Refused("not listed")

    async def _addresses_of(self, target: Target) -> Sequence[Address]:
        if not isinstance(target.host, str):
            return [target.host]
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                await self._room.acquire()
                # Given up, it holds its thread, and its room, until the resolver answers.
                addresses = await asyncio.shield(self._start_lookup(target.host, target.port))
        except TimeoutError:
            raise Unreachable(f"{target.host} could not be looked up in time", timed_out=True) from None
        except OSError as exc:
            raise Unreachable(f"{target.host} could not be looked up: {exc.strerror or exc}") from exc
        if not addresses:
            raise Unreachable(f"{target.host} has no address")
        return addresses

    def _start_lookup(self, host: str, port: int) -> asyncio.Future[Sequence[Address]]:
        lookup = asyncio.ensure_future(self._resolve(host, port))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._on_lookup)
        return lookup

    def _on_lookup(self, lookup: asyncio.Future[Sequence[Address]]) -> None:
        self._lookups.discard(lookup)
        self._room.release()
        if not lookup.cancelled():
            lookup.exception()  # seen, also where nobody waits any more


async def _connect_first(addresses: Sequence[Address], target: Target) -> socket.socket:
    """Connect to the first address that answers."""
    failure = Unreachable(f"{target} has no address")
    for address in addresses:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await _connect(address, target.port)
        except TimeoutError:
            failure = Unreachable(f"{target} does not answer at {address}", timed_out=True)
        except OSError as exc:
            failure = Unreachable(f"{target} cannot be reached at {address}: {exc.strerror or exc}")
    raise failure


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    with contextlib.ExitStack() as undoing:
        sock = undoing.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
        undoing.pop_all()
    return sock
