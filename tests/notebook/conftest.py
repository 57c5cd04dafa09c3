"""Clients, a server, and a stand-in for the screen of a terminal."""

from collections.abc import Iterator

import pytest

import execzmq
from execzmq.client.sync import Client
from tests.servers import ServerProcess, serving


@pytest.fixture
def client(no_leaks: None) -> Iterator[Client]:
    """A client that runs commands in this Python."""
    with execzmq.local() as client:
        yield client


@pytest.fixture
def server(no_leaks: None) -> Iterator[ServerProcess]:
    """A server for several clients."""
    with serving() as server:
        yield server
