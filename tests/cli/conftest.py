"""Servers that the command line starts end with the test."""

from collections.abc import Iterator

import pytest

from execzmq.cli import commands


@pytest.fixture
def servers(no_leaks: None) -> Iterator[None]:
    """Let the test start servers; end them, with their processes, after it."""
    yield
    assert commands.run(["shutdown", "--all"]) == 0
