"""A whole server: taking a name, ending, being killed, being taken over."""

import asyncio
import errno
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.errors import Conflict
from execzmq.server import app
from execzmq.server.app import Server
from execzmq.settings import Settings
from tests.commands import all_events, end_of, is_alive, output_of, python, shell, until_output, words
from tests.factories import open_server
from tests.raw import raw, start_content
from tests.servers import SERVE, ServerProcess, serving
from tests.support import deadline, ms, wait_until

pytestmark = pytest.mark.slow


# One server per name


async def test_a_second_server_of_a_name_is_refused() -> None:
    """It is told who runs, and leaves the first alone."""
    async with open_server() as first:
        with pytest.raises(Conflict) as caught:
            await Server.open("t", Settings())
        assert caught.value.pid == os.getpid()
        assert connection.load(connection.state_folder("t") / "connection.json") == first.info


async def test_a_start_that_fails_leaves_nothing() -> None:
    """Neither threads nor sockets nor the lock: the next one of that name starts."""
    folder = connection.runtime_file("t")
    folder.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        await Server.open("t", Settings())
    folder.rmdir()
    async with open_server() as server:
        assert server.info.pid == os.getpid()


async def test_its_end_leaves_nothing(state_home: Path) -> None:
    """Sockets and connection files are gone."""
    async with open_server() as server:
        folder = Path(server.info.ip).parent
        assert len(list(folder.glob("s-*"))) == 5
    assert not list(folder.glob("s-*"))
    assert not (connection.state_folder("t") / "connection.json").exists()
    assert not connection.runtime_file("t").exists()


async def test_it_ends_where_nothing_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is read-only or over its quota: the connection file stays and does no harm."""
    with monkeypatch.context() as patch:
        async with open_server() as server:
            patch.setattr(connection, "remove_connection_file", _refuse)
    assert connection.load(connection.state_folder("t") / "connection.json") == server.info
    async with open_server() as next_one:
        assert next_one.info.epoch != server.info.epoch


async def test_more_descriptors_for_the_server_and_none_for_its_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A usual limit would be used up by some hundred commands; they have it as it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        with serving() as server:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            async with server.backend() as backend:
                process = await backend.start(shell("ulimit -n"))
                assert output_of(await all_events(process)) == b"300\n"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_files_of_another_life_stay(state_home: Path) -> None:
    """A server removes the connection files that it has written, and no others."""
    async with open_server():
        path = connection.runtime_file("t")
        path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 1}))
    assert path.exists()


# Ends


async def test_an_idle_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its idle time without process, lease or request, and not before."""
    monkeypatch.setattr(app, "_TICK", 0.01)
    server = await Server.open("t", Settings(idle_timeout=600.0, shutdown_grace=0.0))
    now = server._clock()
    server._clock = lambda: now
    process = await server._backend.start(words("sleep", "1000"))
    running = asyncio.ensure_future(server.run())
    now += 10_000
    done, _ = await asyncio.wait([running], timeout=ms(100))
    assert not done
    await process.terminate(0.0)
    await process.wait("closed", 10.0)
    now += 599
    done, _ = await asyncio.wait([running], timeout=ms(100))
    assert not done
    now += 602
    async with deadline(5):
        await running
    await server.close()


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_everything_in_order(signo: signal.Signals) -> None:
    """By the ladder: TERM first, the last words and the end reach whoever watches, the status is 0."""
    trap = "trap 'echo last words; exit 3' TERM; echo up; while :; do sleep 0.1; done 2> /dev/null"
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(shell(trap))
            await until_output(process, b"up")
            following = asyncio.ensure_future(all_events(process))
            await backend.server_info()
            server.signal(signo)
            events = await following
        assert output_of(events, "stdout") == b"up\nlast words\n"
        result = end_of(events)
        assert (result.exit_code, result.cause, result.asked_by) == (3, "terminated", "shutdown")
        assert await asyncio.to_thread(server.wait) == 0
        assert not (server.state / "connection.json").exists()


def test_a_signal_that_was_blocked_at_its_start_ends_it() -> None:
    """A server has the mask of the thread that starts it, and must hear what it is sent all the same."""
    blocked = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        server = ServerProcess("t", ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.close()


async def test_an_end_that_cannot_be_announced_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever withdrawing meets, the server stops, and every other step of its end is made."""
    server = await Server.open("t", Settings(shutdown_grace=0.0))
    process = await server._backend.start(words("sleep", "1000"))
    pid = (await process.info()).pid
    assert pid is not None
    monkeypatch.setattr(server._state, "withdraw", _refuse)
    monkeypatch.setattr(server._dispatcher, "close", _refuse)
    with pytest.raises(OSError, match="refused"):
        server.stop()
    async with deadline(10):
        await server.run()
        with pytest.raises(OSError, match="refused"):
            await server.close()
    assert not is_alive(pid)
    assert not list(Path(server.info.ip).parent.glob("s-*"))
    async with open_server():  # the name is free
        pass


def _refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, "refused")


async def test_a_step_of_the_end_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are made."""
    monkeypatch.setattr(app, "_STEP", 0.5)
    server = await Server.open("t", Settings(shutdown_grace=0.0))
    monkeypatch.setattr(server._dispatcher, "close", asyncio.get_running_loop().create_future)
    async with deadline(10):
        with pytest.raises(TimeoutError):
            await server.close()
    async with open_server():
        pass


async def test_hangup_leaves_the_processes() -> None:
    """The next server of the name goes on with them."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(words("cat", process_id="p", stdin="pipe"))
        server.signal(signal.SIGHUP)
        assert await asyncio.to_thread(server.wait) == 0
    with serving() as second:
        async with second.backend() as backend:
            again = await backend.attach("p")
            assert again.instance == process.instance
            await again.write(b"still here", end=True)
            assert output_of(await all_events(again)) == b"still here"


# A server that was killed


async def test_what_a_killed_server_left_is_taken_over_x08() -> None:
    """Its processes run on; the next server lists them, ends them, and shows finished logs."""
    with serving() as server:
        async with server.backend() as backend:
            living = await backend.start(shell("echo up; sleep 1000 & wait", process_id="living"))
            await until_output(living, b"up")
            finished = await backend.start(words("echo", "done", process_id="finished"))
            before = await all_events(finished)
            pid = (await living.info()).pid
        epoch = server.info.epoch
        server.kill()
        assert pid is not None
        assert is_alive(pid)
        assert (server.state / "connection.json").exists()
        with serving() as second:
            assert second.info.epoch != epoch
            async with second.backend() as backend:
                listed = {info.process_id: info for info in await backend.list_processes()}
                assert (listed["living"].pid, listed["living"].state) == (pid, "running")
                assert await all_events(await backend.attach("finished")) == before
                report = await (await backend.attach("living")).terminate(0.0)
                assert {ref.pid for ref in report.ended} >= {pid}
                end = end_of(await all_events(await backend.attach("living")))
                assert (end.signal, end.cause) == (signal.SIGKILL, "terminated")
            wait_until(lambda: not is_alive(pid))


async def test_output_of_the_time_between_is_kept_x08() -> None:
    """What a process wrote while no server lived is in the log of the next, whole and in order."""
    code = "import sys\nprint('up')\nfor line in range(20000): print(line)\nprint('end')"
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(python(f"input()\n{code}", stdin="pipe", process_id="p"))
            await process.write(b"go\n", end=True)
            await until_output(process, b"up")
        server.kill()
    with serving() as second:
        async with second.backend() as backend:
            events = await all_events(await backend.attach("p"))
        lines = output_of(events).decode().split()
        assert lines == ["up", *map(str, range(20000)), "end"]
        assert end_of(events).exit_code == 0


# Vanished clients


async def test_clients_that_vanish_cost_nothing_x06() -> None:
    """Between request and reply: the server neither blocks nor keeps anything, and answers others."""
    async with open_server() as server:
        loop = asyncio.get_running_loop()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            with raw(server.info) as gone:
                gone.send(gone.codec.encode("wait_request", _long_wait()))
                gone.send(gone.codec.encode("info_request", {}))
        with raw(server.info) as client:
            content = start_content(server.info, "true", process_id="p")
            assert (await loop.run_in_executor(None, lambda: client.ask("start", content))).content["pid"]
            statistics = (await loop.run_in_executor(None, lambda: client.ask("info"))).content["statistics"]
        assert statistics["requests"] >= 2
        async with deadline(5):
            await asyncio.to_thread(wait_until, lambda: len(os.listdir("/proc/self/fd")) <= before + 10)


def _long_wait() -> dict[str, object]:
    return {"process_id": "none", "until": "closed", "timeout": 30.0}


def test_a_program_cannot_serve_a_name_twice() -> None:
    """The command line says who runs, and exits with 125."""
    with serving() as server:
        done = subprocess.run(
            [*SERVE, "--name", "t"],
            capture_output=True,
            timeout=deadline(20).left(),
            check=False,
        )
        assert done.returncode == 125
        assert str(server.pid).encode() in done.stderr
