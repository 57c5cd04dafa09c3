"""Descriptors run out in keeper or server: that start fails by name, and all others are served as before."""

import contextlib
import os
import resource
from collections.abc import Iterator

import psutil
import pytest

from execzmq.errors import SpawnFailed
from execzmq.types.backend import ExecBackend
from tests.commands import all_events, end_of, output_of, run, shell, until_output, words
from tests.servers import ServerProcess, serving
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


def descriptors(pid: int) -> int:
    """Return how many that process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def keeper_of(server: ServerProcess) -> int:
    """Return the pid of the keeper, which the server has started."""
    (keeper,) = psutil.Process(server.pid).children()
    return int(keeper.pid)


@contextlib.contextmanager
def no_descriptor_left(pid: int) -> Iterator[None]:
    """Let that process open nothing more meanwhile."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    open_now = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    lowest_free = min(set(range(max(open_now) + 2)) - open_now)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


async def refused(backend: ExecBackend, **more: object) -> SpawnFailed:
    """Return how a start is refused."""
    with pytest.raises(SpawnFailed) as caught:
        await backend.start(shell("echo never", process_id="refused", **more))
    return caught.value


@pytest.mark.parametrize("who", ["keeper", "server"])
async def test_a_start_without_descriptors_x01(who: str) -> None:
    """It says what to do and leaves nothing; commands that run go on, and later starts too."""
    with serving() as server:
        async with server.backend() as backend:
            running = await backend.start(words("cat", stdin="pipe"))
            await running.write(b"one\n")
            await until_output(running, b"one\n")
            pid = keeper_of(server) if who == "keeper" else server.pid
            before = descriptors(keeper_of(server))
            with no_descriptor_left(pid):
                error = await refused(backend)
                assert error.details["reason"] == "too_many_descriptors"
                assert "ulimit -n" in str(error)
                await running.write(b"two\n")
                assert len(await backend.list_processes()) == 2
            await until_output(running, b"one\ntwo\n")
            wait_until(lambda: descriptors(keeper_of(server)) == before)
            _, output, _ = await run(backend, shell("echo again", process_id="refused"))
            assert output == b"again\n"
            await running.write(b"", end=True)
            events = await all_events(running)
            assert (output_of(events), end_of(events).exit_code) == (b"one\ntwo\n", 0)
