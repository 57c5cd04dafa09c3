"""What stdin is when nobody says anything, and when somebody does."""

import os
import subprocess
import sys

import pytest

from execzmq.errors import StdinClosed
from tests.commands import all_events, output_of, run, shell, words
from tests.factories import Factory

pytestmark = pytest.mark.slow


async def test_default_is_empty_c39(factory: Factory) -> None:
    """Without a word stdin is empty: nothing waits for ever."""
    async with factory() as backend:
        _, output, _ = await run(backend, shell("cat; echo end"))
        assert output == b"end\n"


async def test_pipe_on_request_c39(factory: Factory) -> None:
    """A pipe is there on request, and closing it is the end of input."""
    async with factory() as backend:
        process = await backend.start(words("tac", stdin="pipe"))
        await process.write(b"foo\nbar\n")
        await process.write(b"", end=True)
        assert output_of(await all_events(process)) == b"bar\nfoo\n"


async def test_write_without_stdin_c39(factory: Factory) -> None:
    """Writing to a process without stdin says how to have one."""
    async with factory() as backend:
        process = await backend.start(words("sleep", "60"))
        with pytest.raises(StdinClosed, match="stdin"):
            await process.write(b"x")


def test_stdin_of_the_server_is_not_eaten_c39() -> None:
    """A command never reads what the server's own stdin holds."""
    code = """
import asyncio, os
from execzmq.backends.local import LocalBackend
from tests.commands import run, words
async def main():
    backend = await LocalBackend.open_private()
    _, output, _ = await run(backend, words("head", "-c", "3"))
    await backend.aclose()
    os.write(1, output + b"|" + os.read(0, 6))
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"abcdef", capture_output=True, timeout=30, check=False
    )
    assert done.stdout == b"|abcdef", done.stderr
    assert os.path.exists("/dev/null")
