"""Clients for the tests of this folder."""

from execzmq.client.aio import AsyncClient
from execzmq.client.sync import Client
from tests.fakes import FakeBackend


def open_client() -> Client:
    """Return a client on a fake backend."""

    async def connect() -> AsyncClient:
        return AsyncClient(FakeBackend())

    return Client.open(connect)
