"""Commands without a server, without a keeper, and without both: what goes on, and what is said of it."""

import asyncio
import hashlib
import os
import signal
from pathlib import Path

import pytest

from execzmq.backends.keeping import Keeping
from execzmq.backends.local import LocalBackend
from execzmq.errors import ConnectionFailed
from execzmq.keeper import pending
from execzmq.keeper.client import KeeperClient
from execzmq.keeper.handover import SpawnedProcess
from execzmq.keeper.roster import Roster
from execzmq.types.events import Started
from tests.backends.lives import last_life, life, open_backend
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    exit_of,
    is_alive,
    kinds_of,
    only,
    output_of,
    shell,
    until_output,
    words,
)
from tests.support import wait_until

pytestmark = pytest.mark.slow


def wait_for(flag: Path) -> str:
    """Return a shell line that waits for a file."""
    return f"while [ ! -e {flag} ]; do sleep 0.02; done"


# Without a server


@pytest.mark.parametrize("tty", [False, True])
async def test_a_silent_command_writes_while_nobody_is_there(folder: Path, tty: bool) -> None:
    """Of its log nothing was on disk: its start is told as before, then all that it wrote, then its end."""
    flag = folder / "flag"
    line = f"{wait_for(flag)}; head -c 9000000 /dev/zero | tr '\\0' x; exit 3"
    async with life(folder) as backend:
        process = await backend.start(shell(line, tty=tty))
        told = await process.read(0)
        keeper = backend.keeper.pid
    flag.touch()
    await asyncio.to_thread(wait_until, lambda: not is_alive(keeper), 20.0)
    async with last_life(folder) as backend:
        again = await backend.attach(process.process_id)
        events = await all_events(again)
        assert again.instance == process.instance
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        assert kinds_of(events) == ["started", "output", "exited", "closed"]
        assert only(events, Started).pid == only(list(told.chunks), Started).pid
        assert hashlib.sha256(output_of(events)).digest() == hashlib.sha256(b"x" * 9_000_000).digest()
        assert end_of(events).exit_code == 3


async def test_beyond_its_budget_a_command_waits_for_a_server(folder: Path) -> None:
    """The keeper stores as much as the log's budget; the rest comes when there is a server."""
    flag = folder / "flag"
    line = f"echo up; {wait_for(flag)}; head -c 1000000 /dev/zero"
    async with life(folder) as backend:
        process = await backend.start(shell(line, log_budget=100_000, process_id="p"))
        await until_output(process, b"up\n")
        log = backend.table.require("p").log.folder
    flag.touch()
    await asyncio.to_thread(wait_until, lambda: sum_of(log) == 100_003)
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert_seqs_whole(events)
        result = end_of(events)
        assert (result.output_bytes["stdout"], result.exit_code) == (1_000_003, 0)


def sum_of(folder: Path) -> int:
    """Count the bytes of stdout in a log."""
    return sum(path.stat().st_size for path in folder.glob("out.*"))


async def test_what_is_left_in_the_pipe_of_a_terminal(folder: Path) -> None:
    """No event of the terminal tells of it: it is taken at once."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", tty=True, tty_echo=False, process_id="p", log_budget=1))
        pump = backend.table.require("p").streams._pumps["stdout"]
        pump.pause()
        os.write(pump.descriptors()["mid_w"], b"left")  # more than the one byte that the keeper may store
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        assert again.instance == process.instance
        assert output_of(await until_output(again, b"left")) == b"left"


async def test_rest_is_discarded_while_nobody_is_there(folder: Path) -> None:
    """A job that holds the streams of a closed process is neither blocked nor broken, and the log stays."""
    flag, done = folder / "flag", folder / "done"
    job = f"({wait_for(flag)}; head -c 300000 /dev/zero; echo ok >{done}; exec sleep 60) &"
    async with life(folder) as backend:
        process = await backend.start(shell(f"{job} exit 0", process_id="p", drain_limit=0.0))
        first = await all_events(process)
    flag.touch()
    await asyncio.to_thread(wait_until, done.exists)
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        assert await all_events(again) == first
        assert backend.table.require("p").log.discarded_bytes == 0


async def test_log_that_was_degraded_has_a_new_instance_once(folder: Path) -> None:
    """What was in the dead server's memory may have been told; of the next server's this is not so."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo up; exec sleep 60", process_id="p"))
        await until_output(process, b"up")
        backend.keeper.mark(backend.table.require("p").spec.key, "degraded")
    async with life(folder) as backend:
        second = await backend.attach("p")
        assert second.instance != process.instance
    async with last_life(folder) as backend:
        assert (await backend.attach("p")).instance == second.instance


# Without a keeper


async def replaced(backend: LocalBackend) -> int:
    """Kill the keeper and wait until another has what it had; return the pid of that."""
    before = backend.keeper.pid
    os.kill(before, signal.SIGKILL)
    await asyncio.to_thread(
        wait_until, lambda: backend._keeping._replacing is not None and backend.keeper.pid != before, 10.0
    )
    assert backend._keeping._replacing is not None
    await backend._keeping._replacing
    return backend.keeper.pid


async def test_commands_of_a_dead_keeper_go_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Pipes, a terminal, stdin, signals and statuses: all as before, also for the next server."""
    async with life(folder) as backend:
        pipe = await backend.start(words("cat", stdin="pipe", process_id="pipe"))
        terminal = await backend.start(words("cat", tty=True, tty_echo=False, process_id="terminal"))
        ends = await backend.start(shell("read x; exit 9", stdin="pipe", process_id="ends"))
        killed = await backend.start(words("sleep", "60", process_id="killed"))
        await pipe.write(b"one")
        await terminal.write(b"one\n")
        await until_output(pipe, b"one")
        await until_output(terminal, b"one")
        dead, other = backend.keeper.pid, await replaced(backend)
        assert f"the keeper, pid {dead}, has died: another one is started" in caplog.messages
        assert f"another keeper, pid {other}, has taken over: it holds 4 commands" in caplog.messages
        await pipe.write(b"two")
        await until_output(pipe, b"onetwo")
        await ends.write(b"\n")
        await killed.signal("TERM")
        assert end_of(await all_events(ends)).exit_code == 9
        result = end_of(await all_events(killed))
        assert (result.signal, result.asked_by) == (15, "client local")
    async with last_life(folder) as backend:
        for name, said in (("pipe", b"onetwothree"), ("terminal", b"one\r\nthree\r\n")):
            process = await backend.attach(name)
            await process.write(b"three" if name == "pipe" else b"three\n", end=True)
            events = await all_events(process)
            assert_seqs_whole(events)
            assert_offsets_whole(events)
            assert (output_of(events), end_of(events).exit_code) == (said, 0)


async def test_job_of_a_dead_keepers_command(folder: Path) -> None:
    """The command is over and its job holds the streams: both keepers, both servers tell its exit once."""
    flag = folder / "flag"
    async with life(folder) as backend:
        process = await backend.start(
            shell(f"({wait_for(flag)}; echo job) & echo main; exit 5", process_id="p")
        )
        assert (await process.wait("exited", 10.0)).exited
        await replaced(backend)
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        flag.touch()
        events = await all_events(again)
        assert kinds_of(events) == ["started", "output", "exited", "output", "closed"]
        assert (exit_of(events).exit_code, output_of(events)) == (5, b"main\njob\n")


async def test_private_backend_ends_what_another_keeper_has_adopted() -> None:
    """Closing it ends the commands of a dead keeper too."""
    backend = await LocalBackend.open_private()
    try:
        process = await backend.start(shell("trap '' TERM; echo up; while :; do sleep 60; done"))
        pid = only(await until_output(process, b"up"), Started).pid
        await replaced(backend)
    finally:
        await backend.aclose()
    await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


async def test_no_keeper_to_be_had_for_a_while(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again; meanwhile commands write on, and an end is told when there is one that knows it."""
    connect, tries = Keeping.connect, 0

    async def sometimes(self: Keeping, found: object) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionFailed("not now")
        await connect(self, found)  # type: ignore[arg-type]

    async with last_life(folder) as backend:
        process = await backend.start(shell("echo up; read x; echo on; exit 4", stdin="pipe"))
        await until_output(process, b"up")
        with monkeypatch.context() as patch:
            patch.setattr(Keeping, "connect", sometimes)
            os.kill(backend.keeper.pid, signal.SIGKILL)
            await process.write(b"\n")
            await until_output(process, b"on")
            assert end_of(await all_events(process)).exit_code == 4
        assert tries == 3


# Without both


async def test_server_dies_before_it_has_handed_over(folder: Path) -> None:
    """The second keeper knows of no command: a silent one was told of as started and is lost, not failed."""
    backend = await open_backend(folder)
    silent = await backend.start(words("sleep", "60", process_id="silent"))
    info = await silent.info()

    async def nothing(keeper: KeeperClient) -> int:
        """Be killed right here."""
        return 0

    backend._keeping._on_replaced = nothing
    before = backend.keeper.pid
    os.kill(before, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: backend.keeper.pid != before, 10.0)
    backend.table.require("silent").log.remove()  # nor was it written down in time
    await backend.aclose()
    async with last_life(folder) as backend:
        again = await backend.attach("silent")
        events = await all_events(again)
        assert kinds_of(events) == ["started", "exited", "closed"]
        assert (again.instance, end_of(events).cause) == (info.instance, "server_lost")
        await again.terminate(0.0)
        await asyncio.to_thread(wait_until, lambda: not is_alive(info.pid or 0))


async def test_both_are_killed_and_the_end_was_written_down(folder: Path) -> None:
    """The keeper, orphaned, has left the end of a command whose job it still reads: it is told."""
    flag = folder / "flag"
    async with life(folder) as backend:
        await backend.start(shell(f"{wait_for(flag)}; sleep 60 & echo late; exit 6", process_id="p"))
        keeper, log = backend.keeper.pid, backend.table.require("p").log.folder
    flag.touch()
    await asyncio.to_thread(wait_until, (log / "exit").exists)
    await asyncio.to_thread(wait_until, (log / "out.0").exists)
    os.kill(keeper, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: not is_alive(keeper))
    async with last_life(folder) as backend:
        process = await backend.attach("p")
        events = await all_events(process)
        assert (output_of(events), end_of(events).exit_code) == (b"late\n", 6)
        await process.terminate(0.0)


@pytest.mark.parametrize("in_time", [True, False])
async def test_keeper_dies_while_it_hands_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    """What has come by then is given to the next one, whether its last word has come too or not."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo up; read x; exit 8", stdin="pipe", process_id="p"))
        await until_output(process, b"up")
    found, resolve, killed = Roster.found, pending.resolve, list[int]()

    def kill(self: Roster, command: SpawnedProcess) -> None:
        found(self, command)
        if not killed:
            killed.append(command.keeper)
            os.kill(command.keeper, signal.SIGKILL)

    def resolve_in_time(future: "asyncio.Future[None] | None") -> None:
        if in_time or len(killed) != 1:
            resolve(future)
        else:
            killed.append(0)

    monkeypatch.setattr(Roster, "found", kill)
    monkeypatch.setattr("execzmq.keeper.client.resolve", resolve_in_time)
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        await again.write(b"\n")
        assert end_of(await all_events(again)).exit_code == 8
