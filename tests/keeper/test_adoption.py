"""A keeper is killed: the next one is given its commands, and does for them what the first would have."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from execzmq.keeper import strangers
from execzmq.keeper.handover import Orphan, ProcessExit, SpawnedProcess
from execzmq.keeper.launch import SEGMENT_BYTES, Tty
from execzmq.keeper.loop import Loop
from execzmq.keeper.pidfds import exit_status
from execzmq.keeper.strangers import Strangers
from execzmq.keeper.table import Record
from execzmq.keeper.tree import descendants, parent_of
from tests.keeper.harness import UNKNOWN, Harness, keeper, read_until, shell
from tests.support import wait_until


def orphan(process: SpawnedProcess, folder: Path, **more: object) -> Orphan:
    """Describe a command for the next keeper."""
    fds = {"pidfd": process.pidfd, **process.fds}
    described = Orphan(
        process.process_id, process.pid, fds, process.started_at, os.fsencode(folder), None, SEGMENT_BYTES
    )
    for name, value in more.items():
        setattr(described, name, value)
    return described


async def kill_keeper(own: Harness) -> None:
    """Kill the keeper and see that it is gone."""
    os.kill(own.client.pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: own.client._is_closed)
    await own.client.aclose()
    assert own.is_lost


@contextlib.asynccontextmanager
async def orphaned(folder: Path, line: str, **more: Any) -> AsyncIterator[SpawnedProcess]:
    """Have a command whose keeper was killed when it had said `up`."""
    own = Harness()
    await own.connect(folder, "keep")
    process = await own.client.spawn(shell(f"echo up; {line}", **more))
    try:
        fd = process.fds.get("pty", process.fds.get("stdout", -1))
        await read_until(fd, b"up")
        await kill_keeper(own)
        yield process
    finally:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        process.close()
        # Whoever has it now reaps when it likes.
        await asyncio.to_thread(wait_until, lambda: not parent_of(process.pid), 10.0)


@pytest.mark.parametrize("tty", [None, Tty(24, 80, echo=False)])
async def test_adopted_command_goes_on(short_tmp: Path, tty: Tty | None) -> None:
    """Its streams are open, a terminal has no hang-up, and its end is told with its status."""
    line = "read x; echo got $x; exit 37"
    async with orphaned(short_tmp, line, stdin="pipe", tty=tty) as process, keeper(short_tmp) as own:
        assert own.client.follows_dead
        own.client.adopt(orphan(process, short_tmp / "f"))
        os.write(process.fds["pty" if tty else "stdin"], b"it\n")
        assert b"got it" in await read_until(process.fds["pty" if tty else "stdout"], b"got it")
        assert await own.exit("p") == 37 << 8


async def test_end_by_a_signal_between_two_keepers_is_known(short_tmp: Path) -> None:
    """What ended while there was no keeper has its status too."""
    async with orphaned(short_tmp, "exec sleep 60") as process:
        signal.pidfd_send_signal(process.pidfd, signal.SIGTERM)
        async with keeper(short_tmp) as own:
            own.client.adopt(orphan(process, short_tmp / "f"))
            assert await own.exit("p") == signal.SIGTERM


async def test_adopted_command_is_drained_and_handed_over(short_tmp: Path) -> None:
    """The server dies too: output goes into the log, the end is on disk, the keeper ends."""
    folder = short_tmp / "p" / "x"
    line = "read x; head -c 300000 /dev/zero; exit 5"
    async with orphaned(short_tmp, line, stdin="pipe") as process:
        async with keeper(short_tmp, "keep") as own:
            own.client.adopt(orphan(process, folder))
            await own.settle()
        async with keeper(short_tmp, "keep") as later:
            found = later.found["p"]
            assert (found.pid, found.started_at) == (process.pid, process.started_at)
            assert set(found.fds) == {"stdin", "stdout", "stderr"}
            assert later.client.follows_dead
            os.write(found.fds["stdin"], b"\n")
        process.close()
        await asyncio.to_thread(wait_until, (folder / "exit").exists, 10.0)
        assert (folder / "out.0").stat().st_size == 300_000
        await own.reap()
        assert f'"status": {5 << 8}' in (folder / "exit").read_text()


async def test_adoption_of_what_has_ended(short_tmp: Path) -> None:
    """A job may hold the streams of one that is over: it is held with its end, which is not told again."""
    async with orphaned(short_tmp, "exec sleep 60") as process:
        end = ProcessExit("p", 3 << 8, {"user": 0.5}, 7.0)
        async with keeper(short_tmp, "keep") as own:
            own.client.adopt(orphan(process, short_tmp / "f", exit=end, marks=frozenset({"discard"})))
            await own.settle()
            assert not own._exits
        async with keeper(short_tmp) as later:
            found = later.found["p"]
            assert found.exit is not None
            assert (found.exit.status, found.exit.rusage, found.exit.ended_at) == (3 << 8, {"user": 0.5}, 7.0)
            assert found.marks == {"discard"}
        await own.reap()


async def test_adoption_that_is_refused_is_an_end_without_a_status(short_tmp: Path) -> None:
    """Nobody would know how it ends."""
    async with orphaned(short_tmp, "exec sleep 60") as process, keeper(short_tmp) as own:
        described = orphan(process, short_tmp / "f")
        described.fds = {"stdout": process.fds["stdout"]}
        own.client.adopt(described)
        assert await own.exit("p") == UNKNOWN


async def test_mode_end_ends_the_adopted(short_tmp: Path) -> None:
    """With the connection everything ends, also what is no child of the keeper; a group with its leader."""
    async with orphaned(short_tmp, "sleep 60 & wait") as process:
        await asyncio.to_thread(wait_until, lambda: bool(descendants(process.pid)))
        (job,) = descendants(process.pid)
        async with keeper(short_tmp) as own:
            own.client.adopt(orphan(process, short_tmp / "f"))
            await own.settle()
        for pid in (process.pid, job):
            await asyncio.to_thread(wait_until, partial(is_over, pid))


def is_over(pid: int) -> bool:
    """Tell whether a process is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_abandoned_after_its_adoption(short_tmp: Path) -> None:
    """It is ended by its pidfd and forgotten."""
    async with orphaned(short_tmp, "exec sleep 60") as process, keeper(short_tmp) as own:
        await own.settle()
        before = own.fd_count()
        own.client.adopt(orphan(process, short_tmp / "f"))
        own.client.abandon("p")
        await asyncio.to_thread(wait_until, lambda: own.fd_count() == before, 10.0)


def test_no_status_before_the_end(short_tmp: Path) -> None:
    """A process that lives has none, nor has what is no pidfd."""
    pidfd = os.pidfd_open(os.getpid())
    assert exit_status(pidfd) is None
    os.close(pidfd)
    assert exit_status(0) is None


def test_status_that_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not tell, or a parent that never reaps: after a while the end has no status."""
    monkeypatch.setattr(strangers, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(strangers, "exit_status", lambda pidfd: None)
    ended: list[tuple[Record, int | None]] = []
    loop = Loop()
    waiting = Strangers(loop, lambda record, status: ended.append((record, status)))
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    record = Record("p", pid, {"pidfd": os.pidfd_open(pid)}, 1.0, adopted=True)
    waiting.watch(record)
    loop.serve(5.0)
    before = waiting.patience
    waiting.turn()
    assert ended == [(record, None)]
    assert (before, waiting.patience) == (0.0, None)
    os.waitpid(pid, 0)
    record.close()
