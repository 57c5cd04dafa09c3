"""The backends that a test runs over: in this Python, and behind a server. Owns what it opens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from execzmq import connection
from execzmq.backends.local import LocalBackend
from execzmq.client.remote import RemoteBackend
from execzmq.server.app import Server
from execzmq.settings import Settings
from execzmq.types.backend import ExecBackend
from execzmq.types.sharing import ShareTerms

Factory = Callable[..., AbstractAsyncContextManager[ExecBackend]]


@contextlib.asynccontextmanager
async def open_local(settings: Settings | None = None) -> AsyncIterator[ExecBackend]:
    """Open the backend of this Python's own."""
    backend = await LocalBackend.open_private(settings)
    try:
        yield backend
    finally:
        await backend.aclose()


@contextlib.asynccontextmanager
async def open_server(settings: Settings | None = None, name: str = "t") -> AsyncIterator[Server]:
    """Run a server on this loop; its end ends its processes."""
    server = await Server.open(name, settings or Settings(shutdown_grace=0.0))
    running = asyncio.ensure_future(_serve(server))
    try:
        yield server
    finally:
        server.stop()
        await running


async def _serve(server: Server) -> None:
    try:
        await server.run()
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def open_remote(settings: Settings | None = None) -> AsyncIterator[ExecBackend]:
    """Open a client of a server that runs on the same loop."""
    async with open_server(settings) as server:
        backend = await RemoteBackend.open(server.info)
        try:
            yield backend
        finally:
            await backend.aclose()


@contextlib.asynccontextmanager
async def open_shared() -> AsyncIterator[ExecBackend]:
    """Open a client of a server on the same loop that comes over tcp with CURVE, by an owner's share."""
    async with open_server(Settings(shutdown_grace=0.0, ip="127.0.0.1")) as server:
        backend = await RemoteBackend.open(server.info)
        path = connection.state_folder("t") / "shared.json"
        try:
            await backend.share(ShareTerms("owner"), path)
        finally:
            await backend.aclose()
        guest = await RemoteBackend.open(connection.load(path))
        try:
            yield guest
        finally:
            await guest.aclose()


FACTORIES: dict[str, Factory] = {"local": open_local, "remote": open_remote}
