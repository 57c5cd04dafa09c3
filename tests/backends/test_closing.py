"""All processes are ended at once, in bounded time."""

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

import pytest

from execzmq.backends import closing, keeping
from execzmq.backends.closing import end_all
from execzmq.backends.local import LocalBackend
from execzmq.errors import ConnectionFailed, ServerLost
from execzmq.keeper import client
from execzmq.settings import Settings
from tests.commands import shell, until_output, words
from tests.disk import fill_disk
from tests.support import ms

pytestmark = pytest.mark.slow


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon on what is stuck."""
    monkeypatch.setattr(closing, "KILL_LIMIT", 0.0)
    monkeypatch.setattr(closing, "SLACK", ms(300))
    monkeypatch.setattr(closing, "LAST_STARTS", ms(300))
    monkeypatch.setattr(keeping, "_QUIT_SECONDS", ms(300))


async def test_one_that_is_stuck_or_fails_is_left(
    short_limits: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are ended all the same, and it is told."""
    ended = []

    async def end() -> None:
        ended.append(True)

    async def fail() -> None:
        raise OSError("failed")

    async def hang() -> None:
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(end_all([hang(), fail(), end()], 0.0, list), ms(5000))
    assert ended == [True]
    assert caplog.text.count("a process could not be ended") == 2


async def test_a_start_that_does_not_come_to_its_end(short_limits: None) -> None:
    """A keeper that is stuck holds up neither the end of the processes nor that of the backend."""
    async with contextlib.aclosing(await LocalBackend.open_private()) as backend:
        keeper = backend.keeper.pid
        os.kill(keeper, signal.SIGSTOP)
        _, starting, _ = backend.begin(words("sleep", "1000"), "test")
        assert starting is not None
        await asyncio.wait_for(backend.end_all("test", 0.0), ms(5000))
        os.kill(keeper, signal.SIGCONT)


async def test_a_keeper_that_does_not_answer_the_next_backend(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error that says so, in a stated time, and what the keeper has is left alone."""
    monkeypatch.setattr(client, "_HELLO_SECONDS", ms(300))
    first = await LocalBackend.open(short_tmp, Settings())
    keeper = first.keeper.pid
    process = await first.start(words("sleep", "1000"))
    await first.aclose()
    os.kill(keeper, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionFailed, match="does not answer"):
            await LocalBackend.open(short_tmp, Settings())
    finally:
        os.kill(keeper, signal.SIGCONT)
    monkeypatch.undo()
    async with contextlib.aclosing(await LocalBackend.open(short_tmp, Settings())) as backend:
        await (await backend.attach(process.process_id)).terminate(0.0)
    await asyncio.to_thread(os.waitpid, keeper, 0)


async def test_nothing_is_started_any_more() -> None:
    """What came after the look at who is there would be left."""
    async with contextlib.aclosing(await LocalBackend.open_private()) as backend:
        ending = asyncio.ensure_future(backend.end_all("test", 0.0))
        await asyncio.sleep(0)
        with pytest.raises(ServerLost, match="ending"):
            await backend.start(words("sleep", "1000"))
        await ending


async def test_a_full_disk_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that print, that are silent or that heed no TERM are ended in the time of the ladder."""
    settings = Settings(shutdown_grace=ms(100))
    async with contextlib.aclosing(await LocalBackend.open_private(settings)) as backend:
        commands = ("echo up; sleep 1000", "while :; do echo up; done", "trap '' TERM; echo up; sleep 1000")
        processes = [await backend.start(shell(command)) for command in commands]
        for process in processes:
            await until_output(process, b"up")
        with monkeypatch.context() as patch:
            fill_disk(patch)
            await asyncio.wait_for(backend.end_all("test"), ms(8000))
            assert [(await process.info()).exited for process in processes] == [True] * 3
