"""Own the proxy of one sandbox: its listener, its connections, and what is told of refusals.

HTTP by absolute URL, and CONNECT for everything else. A listener per sandbox is what tells who asks. It must
not know who placed the listener, or what becomes of a denial.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from execzmq.sandbox.denials import INTERVAL_SECONDS, Denial, Denials
from execzmq.sandbox.dialing import Dialer, Refused, Unreachable
from execzmq.sandbox.hosts import Target, written
from execzmq.sandbox.requesting import ESTABLISHED, BadRequest, Request, RequestReader, answer, option_for
from execzmq.sandbox.tunnel import BUFFER_BYTES, Connection, finish, join, part

PORT = 3128
"""Where a command finds its proxy, on its own loopback."""

CONNECTIONS = 128
"""Connections at once of one sandbox; further ones wait."""
CONNECTIONS_IN_ALL = 1024
_HEAD_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Proxy:
    """Serve one sandbox from now on, until `close`.

    Args:
        listener: listening stream socket, this object's own from now on.
        dialer: what may be reached, and how; this object's own too.
        on_denied: told of refusals, each host and port at most once a second.
        room: for the connections of all proxies of this process, `CONNECTIONS_IN_ALL`.
    """

    def __init__(
        self,
        listener: socket.socket,
        dialer: Dialer,
        on_denied: Callable[[Denial], None],
        room: asyncio.Semaphore,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._dialer = dialer
        self._on_denied = on_denied
        self._room = room
        self._own_room = asyncio.Semaphore(CONNECTIONS)
        self._denials = Denials()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._tasks = {asyncio.create_task(self._accept())}

    def close(self) -> None:
        """End every connection at once, tell what is still to be told, and close the listener; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        self._dialer.close()
        self._listener.close()
        self._tell_due()

    def fileno(self) -> int:
        """Return the listener's descriptor, -1 once it is closed."""
        return self._listener.fileno()

    async def wait_closed(self) -> None:
        """Wait until nothing of this proxy is left. Cancelled, it ends all the same."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self) -> None:
        """Take connections while there is room for them; who finds none waits in the listener's queue."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._listener)
            except OSError as exc:
                _log.warning("a proxy cannot accept a connection: %s", exc)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            with contextlib.ExitStack() as undoing:
                undoing.callback(sock.close)
                await self._own_room.acquire()
                undoing.callback(self._own_room.release)
                await self._room.acquire()
                undoing.pop_all()
            task = asyncio.create_task(self._serve(sock))
            self._tasks.add(task)
            task.add_done_callback(self._on_served)

    def _on_served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._own_room.release()
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection of a proxy failed", exc_info=error)

    async def _serve(self, sock: socket.socket) -> None:
        try:
            client = await asyncio.open_connection(sock=sock, limit=BUFFER_BYTES)
        except BaseException:
            sock.close()
            raise
        try:
            # A connection that breaks is its own two ends' business.
            with contextlib.suppress(OSError, EOFError):
                await self._answer(client)
        finally:
            client[1].transport.abort()

    async def _answer(self, client: Connection) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                request = await _read_request(client[0])
        except BadRequest as exc:
            await part(client, answer(exc.status, str(exc)))
            return
        except TimeoutError:
            await part(client, answer(408, "no request came in time"))
            return
        try:
            sock = await self._dialer.dial(request.target)
        except Refused as exc:
            self._deny(request.target, exc.reason)
            await part(client, answer(403, _refusal(request.target, exc)))
        except Unreachable as exc:
            await part(client, answer(504 if exc.timed_out else 502, str(exc)))
        else:
            await _connect(client, sock, request)

    def _deny(self, target: Target, reason: str) -> None:
        if (denial := self._denials.note(written(target.host), target.port, reason)) is not None:
            self._on_denied(denial)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._tell_due)

    def _tell_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for denial in self._denials.due():
            self._on_denied(denial)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    parser = RequestReader()
    while True:
        request = parser.feed(await reader.read(BUFFER_BYTES))
        if request is not None:
            return request


async def _connect(client: Connection, sock: socket.socket, request: Request) -> None:
    """Join a client with the socket of its target, which is closed in the end."""
    try:
        server = await asyncio.open_connection(sock=sock, limit=BUFFER_BYTES)
    except BaseException:
        sock.close()
        raise
    try:
        if request.is_tunnel:
            client[1].write(ESTABLISHED)
        server[1].write(request.head + request.rest)
        await join(client, server)
        await finish(server)
        await finish(client)
    finally:
        server[1].transport.abort()


def _refusal(target: Target, refused: Refused) -> str:
    """Say in one line what was refused and what to do."""
    if refused.address is None:
        return f"{target} is not allowed: allow it with {option_for(target)}"
    found = f"{target} is at {refused.address}, which is {refused.reason}"
    if refused.reason == "private":
        return f"{found}: list the host in full, with {option_for(target)}"
    return f"{found} and is reached from no sandbox with a proxy"
