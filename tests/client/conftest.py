"""A client for each test that wants one."""

from collections.abc import Iterator

import pytest

from execzmq.client.sync import Client
from tests.client.clients import open_client


@pytest.fixture
def client(no_leaks: None) -> Iterator[Client]:
    """A blocking client that runs commands in this Python."""
    with open_client() as client:
        yield client
