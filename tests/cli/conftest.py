"""Servers that the command line starts end with the test."""

from collections.abc import Iterator

import pytest

from tests.cli.shell import execzmq


@pytest.fixture
def servers(no_leaks: None) -> Iterator[None]:
    """Let the test start servers; end them, with their processes, after it."""
    yield
    done = execzmq("shutdown", "--all")
    assert done.returncode == 0, done.stderr
