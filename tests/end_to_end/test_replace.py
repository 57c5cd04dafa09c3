"""`serve --replace`: a new server takes over from a living one, and its clients hardly notice."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from execzmq.api import aconnect
from execzmq.client.aio import AsyncClient
from tests.cli.shell import execzmq
from tests.commands import all_events, end_of, output_of, python, shell, until_output, words
from tests.end_to_end.watchers import watching
from tests.lives import lives
from tests.raw import raw
from tests.servers import SERVE, ServerProcess, serving
from tests.support import TIMESCALE, deadline, ms, pass_time, wait_until

pytestmark = pytest.mark.slow

MOST_PAUSE = 1.0
TICKS = "import time, itertools\nfor tick in itertools.count():\n print(tick, flush=True)\n time.sleep(0.005)"


class Pauses:
    """How long a client waits for its answers, and a watcher for what it watches."""

    def __init__(self) -> None:
        self.answers: list[float] = []
        self.events: list[float] = []

    def longest(self) -> tuple[float, float]:
        """Return the longest time between two answers and between two events, and begin anew."""
        found = _longest(self.answers), _longest(self.events)
        del self.answers[:-1], self.events[:-1]
        return found

    async def ask(self, client: AsyncClient) -> None:
        """Ask all the time."""
        while True:
            await client.info()
            self.answers.append(time.monotonic())
            await pass_time(ms(5))

    async def watch(self, client: AsyncClient) -> None:
        """Watch the process `p`, each event of it once and in order."""
        seq = 0
        async for event in (await client.attach("p")).events():
            assert event.seq == seq + 1  # type: ignore[union-attr]  # no Gap
            seq += 1
            self.events.append(time.monotonic())


def _longest(times: list[float]) -> float:
    return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)


@asynccontextmanager
async def pausing(client: AsyncClient, watcher: AsyncClient) -> AsyncIterator[Pauses]:
    """Measure meanwhile."""
    pauses = Pauses()
    tasks = [asyncio.ensure_future(pauses.ask(client)), asyncio.ensure_future(pauses.watch(watcher))]
    try:
        yield pauses
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _go_on(pauses: Pauses) -> None:
    """Wait until both have got something new."""
    before = len(pauses.answers), len(pauses.events)

    def have_gone_on() -> bool:
        return len(pauses.answers) > before[0] + 5 and len(pauses.events) > before[1] + 5

    await asyncio.to_thread(wait_until, have_gone_on, 10.0)


@pytest.mark.parametrize(("state", "times"), [("living", 3), ("stopped", 1)])
async def test_clients_and_watchers_go_on_after_a_short_pause(
    state: str, times: int, record_property: Callable[[str, object], None]
) -> None:
    """Below a second, without a hole or a repeat; a server that is stopped is replaced too."""
    with lives() as server:
        async with server.now.aclient() as client, server.now.aclient() as watcher:
            process = await client.start(python(TICKS).argv, process_id="p")
            async with pausing(client, watcher) as pauses:
                for _ in range(times):
                    await _go_on(pauses)
                    pauses.longest()
                    if state == "stopped":
                        server.now.signal(signal.SIGSTOP)
                    before = server.now.info
                    after = (await asyncio.to_thread(server.replace)).info
                    await _go_on(pauses)
                    longest = pauses.longest()
                    record_property("longest pause of answers and of events", longest)
                    if state == "living":  # one that is stopped pauses for as long as it is
                        assert max(longest) < MOST_PAUSE * TIMESCALE
                    assert (after.ip, after.key) == (before.ip, before.key)
                    assert after.epoch not in ("", before.epoch)
                    assert after.pid == server.now.pid
            await process.terminate(0.0)


async def test_server_of_a_stopped_keeper_is_left_alone() -> None:
    """Nobody could take its commands over: the new server says what to do, and the old one goes on."""
    with lives() as server:
        async with server.now.aclient() as client:
            await client.start(["sleep", "1000"], process_id="p")
            keeper = int(only_child_of(server.now.pid))
            os.kill(keeper, signal.SIGSTOP)
            try:
                done = await asyncio.to_thread(execzmq, "serve", "--name", server.now.name, "--replace")
            finally:
                os.kill(keeper, signal.SIGCONT)
            assert done.returncode == 125
            assert f"kill -CONT {keeper}".encode() in done.stderr
            assert (await client.run(["true"])).returncode == 0


def only_child_of(pid: int) -> str:
    """Return the process id of the one child of a process."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return child


async def test_five_watching_programs_and_a_writer() -> None:
    """Through three replacements each sees every byte once; what is written arrives once and in order."""
    with lives() as server:
        async with server.now.aclient() as client:
            process = await client.start(["cat"], process_id="p", stdin=True)
            await process.write(b"begin\n")
            with watching(server.now, "p", 5) as watchers:
                writing = asyncio.ensure_future(_write_lines(process, 300))
                for _ in range(3):
                    await asyncio.to_thread(server.replace)
                written = await writing
                said = {await asyncio.to_thread(one.said) for one in watchers}
            result = await process.wait(timeout=ms(10_000))
            data = b"".join([chunk.data async for chunk in process.output()])  # type: ignore[union-attr]  # no Gap
        assert data == b"begin\n" + written
        assert result.exit_code == 0
        (only,) = said
        assert only.split()[0] == str(len(data))
        assert only.split()[-1] == "0"


async def _write_lines(process, count: int) -> bytes:
    written = b""
    for number in range(count):
        line = b"%d\n" % number
        await process.write(line)
        written += line
        await pass_time(ms(10))
    await process.close_stdin()
    return written


async def test_a_name_can_be_found_all_the_time() -> None:
    """Also while nobody listens: who comes then waits for the new server, and starts none."""
    with lives() as server:
        replacing = asyncio.ensure_future(_replace(server, 3))
        connected = 0
        async with deadline(30):
            while not replacing.done():
                async with aconnect("t") as client:
                    await client.info()
                connected += 1
        await replacing
        assert connected > 5


async def _replace(server, times: int) -> None:
    for _ in range(times):
        await asyncio.to_thread(server.replace)


async def test_nobody_to_replace() -> None:
    """It just starts, and goes on with what one that was killed has left."""
    with serving("t", "--replace") as server, server.client() as client:
        process = client.start(["sleep", "1000"])
        server.kill()
        with serving("t", "--replace") as second, second.client() as again:
            assert again.attach(process.process_id).kill().ended


async def test_what_is_meant_for_the_one_before_is_refused_and_waits_go_on() -> None:
    """Signals by the epoch; a `wait`, a `read` and a start that is asked for again know of no end."""
    with lives() as server:
        async with server.now.backend() as backend:
            process = await backend.start(words("cat", process_id="p", stdin="pipe"))
            waiting = asyncio.ensure_future(process.wait("closed", 30.0))
            epoch = backend._connection.epoch
            await asyncio.to_thread(server.replace)
            again = await backend.start(words("cat", process_id="p", stdin="pipe"))
            assert again.instance == process.instance
            assert backend._connection.epoch != epoch
            with raw(server.now.info) as old:
                content = {"process_id": "p", "signal": 9, "epoch": epoch}
                refused = await asyncio.to_thread(old.ask, "signal", content)
            assert refused.content["ename"] == "WrongEpoch"
            await process.write(b"x", end=True)
            async with deadline(10):
                assert (await waiting).closed
            assert output_of(await all_events(process)) == b"x"


# Whom it does not end


async def test_a_command_cannot_replace_its_own_server() -> None:
    """It would be refused by the keeper, so nobody is ended."""
    with serving() as server, server.client() as client:
        done = client.run([*SERVE, "--name", "t", "--replace"])
        assert done.returncode == 125
        assert b"from outside" in done.stderr
        assert client.info().pid == server.pid


async def test_a_state_of_a_later_version_ends_nobody() -> None:
    """It is looked at before the living server is."""
    with serving() as server:
        file = server.state / "state.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))
        done = execzmq("serve", "--name", "t", "--replace")
        assert done.returncode == 125
        assert b"format 99" in done.stderr
        assert server.process.poll() is None


def a_stranger() -> "subprocess.Popen[bytes]":
    """Start a program that has nothing to do with anything."""
    return subprocess.Popen(["sleep", "1000"])


def test_a_stranger_with_the_pid_of_the_file_is_not_touched() -> None:
    """The file names another process; the one that has the lock cannot be told, and it is said."""
    with serving() as server, a_stranger() as stranger:
        (server.state / "lock").write_text(f"{stranger.pid}\n")
        done = execzmq("serve", "--name", "t", "--replace")
        assert done.returncode == 125
        assert str(stranger.pid).encode() in done.stderr
        assert stranger.poll() is None
        assert server.process.poll() is None
        stranger.kill()


async def test_several_at_once() -> None:
    """Each ends the one before it; one is left, and it has everything."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(shell("echo up; cat", process_id="p", stdin="pipe"))
            await until_output(process, b"up")
            others = _replace_at_once(4)
            try:
                await asyncio.to_thread(wait_until, lambda: len(_living(others)) == 1, 30.0)
                await asyncio.to_thread(wait_until, lambda: server.info.pid == _living(others)[0].pid)
                await process.write(b"end", end=True)
                events = await all_events(process)
                assert output_of(events) == b"up\nend"
                assert end_of(events).exit_code == 0
                assert (await backend.server_info()).pid == _living(others)[0].pid
            finally:
                for one in others:
                    one.terminate()
                    one.wait()


def _replace_at_once(count: int) -> "list[subprocess.Popen[bytes]]":
    return [subprocess.Popen([*SERVE, "--name", "t", "--replace"]) for _ in range(count)]


def _living(programs: "list[subprocess.Popen[bytes]]") -> "list[subprocess.Popen[bytes]]":
    return [one for one in programs if one.poll() is None]


# In the background


@pytest.mark.usefixtures("servers")
def test_a_default_server_is_replaced_in_the_background() -> None:
    """The one that the first `run` has started, by one that stays when the command line has ended."""
    execzmq("start", "--name", "left", "--", "sleep", "1000")
    pid = _pid()
    done = execzmq("serve", "--replace", "--detach", "--idle-timeout", "600")
    assert done.returncode == 0, done.stderr
    assert _pid() not in (pid, os.getpid())
    assert b"left" in execzmq("ps").stdout
    again = execzmq("serve", "-d")
    assert again.returncode == 125
    assert b"--replace" in again.stderr
    assert execzmq("kill", "left").returncode == 0


def _pid() -> int:
    return int(json.loads(execzmq("connections", "--json").stdout)[0]["pid"])


@pytest.mark.usefixtures("servers")
def test_one_in_the_foreground_by_one_in_the_background() -> None:
    """And that one by one in the foreground; both end in order."""
    with serving("box") as first:
        assert execzmq("serve", "--name", "box", "--replace", "-d").returncode == 0
        assert first.wait() == 0
        second = ServerProcess("box", ("--replace",))
        assert execzmq("run", "--on", "box", "--", "echo", "x").stdout == b"x\n"
        second.close()
