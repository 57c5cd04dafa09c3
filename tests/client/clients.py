"""Clients for the tests of this folder."""

import asyncio
from collections.abc import Callable

from execzmq.backends.local import LocalBackend
from execzmq.client.aio import AsyncClient
from execzmq.client.sync import Client
from execzmq.types.backend import ExecBackend


def open_client() -> Client:
    """Return a client that runs commands in this Python."""

    async def connect() -> AsyncClient:
        return AsyncClient(await LocalBackend.open_private())

    return Client.open(connect)


def open_on(backend: ExecBackend) -> Client:
    """Return a client on any backend."""

    async def connect() -> AsyncClient:
        return AsyncClient(backend)

    return Client.open(connect)


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks run until `condition` holds."""
    while not condition():  # noqa: ASYNC110  # a turn of the loop at a time, within the test's deadline
        await asyncio.sleep(0)
