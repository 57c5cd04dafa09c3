"""Servers that the command line starts end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.cli import commands


@pytest.fixture
def servers(no_leaks: None, state_home: Path) -> Iterator[None]:
    """Let the test start servers; end them, with their processes, after it."""
    yield
    status = commands.run(["shutdown", "--all"])
    assert status == 0, "\n".join(log.read_text() for log in state_home.rglob("server*.log"))
