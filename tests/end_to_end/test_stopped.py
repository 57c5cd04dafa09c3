"""Programs that stand still for a while, as under a debugger or on a laptop that sleeps: nothing is lost."""

import asyncio
import hashlib
import signal
import subprocess

import pytest

from execzmq.client.remote import RemoteBackend, RemoteProcess
from execzmq.types.events import Event
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    output_of,
    python,
    until_output,
    words,
)
from tests.end_to_end.watchers import watching
from tests.passing import pace, stand_still
from tests.servers import ServerProcess, serving
from tests.support import child, deadline

pytestmark = pytest.mark.slow

SECONDS = 3.0
ECHO = """
import sys
for line in sys.stdin:
    sys.stdout.write(line * 20)
    sys.stdout.flush()
"""
RUNNER = """
import hashlib, sys
import execzmq
with execzmq.connect(sys.argv[1]) as client:
    print("ready", flush=True)
    done = client.run([sys.executable, "-c", sys.argv[2]])
print(done.returncode, len(done.stdout), hashlib.sha256(done.stdout).hexdigest(), flush=True)
"""
"""A client that runs a command, and says what it got."""
FLOOD = "import os\nfor number in range(2000): os.write(1, b'%07d ' % number * 4096)"


class Writing:
    """Writes to a process `p` all the time, and follows it from elsewhere."""

    def __init__(self, backend: RemoteBackend) -> None:
        self._backend = backend
        self._goes_on = True

    async def begin(self) -> None:
        """Start the process and write."""
        process = await self._backend.start(python(ECHO, process_id="p", stdin="pipe"))
        follower = await self._backend.attach("p")
        self._following = asyncio.ensure_future(all_events(follower, seconds=60))
        self._task = asyncio.ensure_future(self._write(process))

    async def end(self) -> list[Event]:
        """Write no more; return all events, which are whole and say what was written."""
        self._goes_on = False
        async with deadline(20):
            written = await self._task
            events = await self._following
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        assert output_of(events) == written
        assert end_of(events).exit_code == 0
        return events

    async def _write(self, process: RemoteProcess) -> bytes:
        written = b""
        while self._goes_on:
            line = b"%d\n" % len(written)
            await process.write(line)
            written += line * 20
            await pace(5)
        await process.write(b"", end=True)
        return written


async def stop_the_server(server: ServerProcess, seconds: float) -> None:
    """Let the server stand still while clients ask, write, watch, wait and begin to connect."""
    async with server.backend() as backend:
        writing = Writing(backend)
        await writing.begin()
        other = await backend.start(words("cat", process_id="other", stdin="pipe"))
        waiting = asyncio.ensure_future(other.wait("exited", 30.0))
        with watching(server, "p", 2) as watchers:
            await pace(300)
            server.signal(signal.SIGSTOP)
            asking = asyncio.ensure_future(other.info())
            starting = asyncio.ensure_future(backend.start(words("echo", "x")))
            await stand_still(seconds - 2.0)
            connecting = asyncio.ensure_future(RemoteBackend.open(server.info, 10.0))
            await stand_still(2.0)
            assert not any(task.done() for task in (asking, starting, connecting, waiting))
            server.signal(signal.SIGCONT)
            async with deadline(10):
                assert (await asking).state == "running"
                assert output_of(await all_events(await starting)) == b"x\n"
                await (await connecting).aclose()
                await other.signal("TERM")
                assert (await waiting).exited
            events = await writing.end()
            said = {await asyncio.to_thread(one.said) for one in watchers}
    (only,) = said
    assert only.split()[0] == str(len(output_of(events)))


async def test_a_server_that_was_stopped_goes_on() -> None:
    """Everybody gets the answer, and every event once."""
    with serving() as server:
        await stop_the_server(server, SECONDS)


@pytest.mark.soak
async def test_a_server_that_was_stopped_longer_than_heartbeats_wait() -> None:
    """All connections end and are made again."""
    with serving() as server:
        await stop_the_server(server, 20.0)


async def stop_a_client(seconds: float) -> None:
    """Let the starter of a command that prints much stand still in the middle of it."""
    wanted = hashlib.sha256(b"".join(b"%07d " % number * 4096 for number in range(2000))).hexdigest()
    with serving() as server:
        argv = [*child(RUNNER), server.name, FLOOD]
        runner = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
        assert runner.stdout is not None
        assert await runner.stdout.readline() == b"ready\n"
        await pace(50)
        runner.send_signal(signal.SIGSTOP)
        async with server.backend() as backend:  # others are served meanwhile
            process = await backend.start(words("cat", stdin="pipe"))
            await stand_still(seconds)
            await process.write(b"x", end=True)
            assert output_of(await until_output(process, b"x")) == b"x"
        runner.send_signal(signal.SIGCONT)
        async with deadline(20):
            said, _ = await runner.communicate()
    assert said.decode().split() == ["0", str(2000 * 4096 * 8), wanted]


async def test_a_client_that_was_stopped_goes_on() -> None:
    """With every byte of what it had run."""
    await stop_a_client(SECONDS)


@pytest.mark.soak
async def test_a_client_that_was_stopped_longer_than_its_server_waits() -> None:
    """Its lease has run out or not: its command is read on meanwhile, and it gets what the log has."""
    await stop_a_client(20.0)


async def test_a_watcher_that_was_stopped_goes_on() -> None:
    """As one that was slow."""
    with serving() as server:
        async with server.backend() as backend:
            writing = Writing(backend)
            await writing.begin()
            with watching(server, "p", 2) as watchers:
                watchers[0].stop()
                await stand_still(SECONDS)
                watchers[0].go_on()
                events = await writing.end()
                said = [await asyncio.to_thread(one.said) for one in watchers]
    assert said[0] == said[1]
    assert said[0].split()[0] == str(len(output_of(events)))
