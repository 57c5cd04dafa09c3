"""The server's end: answers, cancellation, loss of the keeper, and what it holds for the next server."""

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from execzmq.keeper import start
from execzmq.keeper.client import KeeperLost
from execzmq.keeper.handover import ProcessExit
from execzmq.keeper.launch import SpawnError
from tests.keeper.harness import Harness, keeper, launch, read_to_end, shell
from tests.support import deadline, wait_until


def open_fds() -> int:
    """Count this process's descriptors."""
    return len(os.listdir("/proc/self/fd"))


async def test_exit_is_known_to_who_comes_late(short_tmp: Path) -> None:
    """The end is noted in the process itself, with usage and time."""
    async with keeper(short_tmp) as own:
        process = await own.client.spawn(shell("exit 9"))
        await own.exit("p")
        assert process.exit is not None
        assert process.exit.status is not None
        assert os.waitstatus_to_exitcode(process.exit.status) == 9
        assert process.exit.ended_at >= process.started_at
        assert process.exit.rusage["max_rss"] > 0
        process.close()


async def test_repeated_spawn_starts_nothing(short_tmp: Path) -> None:
    """A spawn of a known id is answered with that command; the descriptors come again."""
    async with keeper(short_tmp) as own:
        first = await own.client.spawn(shell("echo once; sleep 60"))
        again = await own.client.spawn(shell("echo twice"))
        assert again.pid == first.pid
        assert os.fstat(again.fds["stdout"]).st_ino == os.fstat(first.fds["stdout"]).st_ino
        first.close()
        again.close()


async def test_two_spawns_of_one_id_at_once_are_a_mistake(short_tmp: Path) -> None:
    """An id has one answer to wait for."""
    async with keeper(short_tmp) as own:
        future = own.client.spawn(launch("true"))
        with pytest.raises(ValueError, match="under way"):
            own.client.spawn(launch("true"))
        (await future).close()


async def test_cancelled_spawn_leaves_nothing(short_tmp: Path) -> None:
    """The command of a cancelled spawn is killed, forgotten, and its descriptors are closed."""
    async with keeper(short_tmp) as own:
        (await own.client.spawn(shell("exit 0", process_id="warm"))).close()
        await own.exit("warm")
        await own.settle()
        ours, theirs = open_fds(), own.fd_count()
        own.client.spawn(launch("sleep", "60")).cancel()
        assert (await own.run(shell("exit 0"))).status == 0
        assert open_fds() == ours
        await asyncio.to_thread(wait_until, lambda: own.fd_count() == theirs)
        (await own.client.spawn(launch("true"))).close()  # the id is free


async def test_lost_keeper_fails_what_waits(short_tmp: Path) -> None:
    """When the keeper is killed everyone is told, once, and later requests fail too."""
    async with keeper(short_tmp) as own:
        os.kill(own.client.pid, signal.SIGSTOP)
        waiting = own.client.spawn(launch("true"))
        os.kill(own.client.pid, signal.SIGKILL)
        with pytest.raises(KeeperLost):
            await waiting
        assert own.is_lost
        with pytest.raises(KeeperLost):
            await own.client.spawn(launch("true"))
        with pytest.raises(KeeperLost):
            await own.client.release("p")


async def test_close_fails_what_waits(short_tmp: Path) -> None:
    """Closing is idempotent, tells who waits, and is no loss."""
    async with keeper(short_tmp) as own:
        waiting = own.client.spawn(launch("true"))
        own.client.close()
        own.client.close()
        with pytest.raises(KeeperLost):
            await waiting
        assert not own.is_lost


async def test_stopped_keeper_is_killed_at_the_end(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is to end with its connection and does not is not waited for without end."""
    monkeypatch.setattr(start, "_END_SECONDS", 0.05)
    async with keeper(short_tmp) as own:
        os.kill(own.client.pid, signal.SIGSTOP)
        async with deadline(10):
            await own.client.aclose()
    assert "was killed" in caplog.text


async def test_another_servers_stopped_keeper_is_killed(short_tmp: Path) -> None:
    """Whoever is connected can end a keeper that does not answer, though it is not its child."""
    first = Harness()
    await first.connect(short_tmp, "keep")
    (await first.client.spawn(launch("sleep", "60"))).close()
    first.client.close()
    async with keeper(short_tmp) as own:
        own.found["p"].close()
        own.client.abandon("p")
        await own.settle()
        os.kill(own.client.pid, signal.SIGSTOP)
        own.client.kill()
        await first.reap()


async def test_closed_name_ends_stdin(short_tmp: Path) -> None:
    """EOF comes when both copies of the writing end are closed."""
    async with keeper(short_tmp) as own:
        process = await own.client.spawn(launch("cat", stdin="pipe"))
        os.close(process.fds.pop("stdin"))
        own.client.close_name("p", "stdin")
        assert await own.exit("p") == 0
        process.close()


async def test_held_files_and_marks_reach_the_next_server(short_tmp: Path) -> None:
    """What a server leaves with a command is there for the next one, without what it took away."""
    own = Harness()
    await own.connect(short_tmp, "keep")
    (await own.client.spawn(launch("sleep", "60"))).close()
    file = os.open(short_tmp / "in", os.O_CREAT | os.O_RDWR)
    os.write(file, b"0123456789")
    own.client.hold("p", "in", 0)
    own.client.hold("p", "in", file)  # the newer one counts
    os.lseek(file, 4, os.SEEK_SET)
    os.close(file)
    own.client.mark("p", "degraded")
    own.client.mark("p", "discard")
    own.client.mark("p", "degraded", on=False)
    own.client.close_name("p", "stderr")
    own.client.close()
    async with keeper(short_tmp) as later:
        found = later.found["p"]
        assert set(found.fds) == {"stdout", "in"}
        assert found.marks == {"discard"}
        assert os.read(found.fds["in"], 3) == b"456"  # one open file: its position too
    await own.reap()


async def test_forget_needs_an_end(short_tmp: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A running command is not forgotten; the refusal is logged."""
    async with keeper(short_tmp) as own:
        process = await own.client.spawn(shell("read x; exit 4", stdin="pipe"))
        own.client.forget("p")
        await own.settle()
        os.write(process.fds["stdin"], b"\n")
        assert os.waitstatus_to_exitcode(await own.exit("p")) == 4
        assert "still runs" in caplog.text
        process.close()


async def test_no_descriptors_left_to_take_a_command(short_tmp: Path) -> None:
    """A server at its limit gets a named error, and the command is not left running."""
    async with keeper(short_tmp) as own:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        await own.settle()
        theirs = own.fd_count()
        future = own.client.spawn(launch("sleep", "60"))
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, limit[1]))
        try:
            with pytest.raises(SpawnError) as refused:
                await future
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        assert refused.value.reason == "too_many_descriptors"
        await asyncio.to_thread(wait_until, lambda: own.fd_count() == theirs)


async def test_unsendable_spawn_is_no_loss(short_tmp: Path) -> None:
    """A closed descriptor, or none free for a large body, fails that spawn alone."""
    async with keeper(short_tmp) as own:
        closed = os.dup(0)
        os.close(closed)
        with pytest.raises(SpawnError, match="Bad file"):
            await own.client.spawn(launch("true", stdin="fd"), {"stdin": closed})
        with pytest.raises(KeyError):
            own.client.spawn(launch("true", stdin="fd"))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (closed, limit[1]))
        try:
            with pytest.raises(SpawnError) as refused:
                await own.client.spawn(launch("true", *(["x" * 100_000] * 2)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        assert refused.value.reason == "too_many_descriptors"
        assert (await own.run(shell("exit 8"))).status == 8


async def test_full_socket_delays_and_loses_nothing(short_tmp: Path) -> None:
    """While the keeper does not read, requests wait with copies of their descriptors."""
    async with keeper(short_tmp) as own:
        await own.settle()
        before = open_fds()
        os.kill(own.client.pid, signal.SIGSTOP)
        reader, writer = os.pipe()
        os.write(writer, b"given")
        os.close(writer)
        padding = {b"X%d" % n: b"x" * 10_000 for n in range(9)}
        waiting = [own.client.spawn(shell("exit 0", process_id=f"w{n}", env=padding)) for n in range(20)]
        last = own.client.spawn(launch("cat", stdin="fd"), {"stdin": reader})
        os.close(reader)
        os.kill(own.client.pid, signal.SIGCONT)
        for process in await asyncio.gather(*waiting):
            process.close()
        assert await read_to_end((await last).fds["stdout"]) == b"given"
        (await last).close()
        assert open_fds() == before


async def test_keeper_without_descriptors_says_so(short_tmp: Path) -> None:
    """At the keeper's own limit a start is refused by name, and goes again when there is room."""
    async with keeper(short_tmp) as own:
        await own.run(shell("exit 0"))
        await own.settle()
        limit = resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE, (own.fd_count() + 2, limit[1]))
        with pytest.raises(SpawnError) as refused:
            await own.client.spawn(launch("true"))
        assert refused.value.reason == "too_many_descriptors"
        resource.prlimit(own.client.pid, resource.RLIMIT_NOFILE, limit)
        assert (await own.run(shell("exit 8"))).status == 8


@pytest.mark.slow
async def test_hundreds_at_once_all_arrive(short_tmp: Path) -> None:
    """300 starts in one go: each has its own output and status, and nothing is left."""
    async with keeper(short_tmp) as own:
        await own.run(shell("true"))
        await own.settle()
        before = own.fd_count()
        done = await asyncio.gather(*(own.run(shell(f"echo {n}; exit {n % 200}")) for n in range(300)))
        assert [(int(one.out), one.status) for one in done] == [(n, n % 200) for n in range(300)]
        await asyncio.to_thread(wait_until, lambda: own.fd_count() == before)


async def test_handover_of_many(short_tmp: Path) -> None:
    """More commands than fit into the socket at once are handed over, each with its descriptors."""
    own = Harness()
    await own.connect(short_tmp, "keep")
    spawned = await asyncio.gather(
        *(own.client.spawn(launch("sleep", "60", process_id=f"m{n}")) for n in range(150))
    )
    for process in spawned:
        process.close()
    own.client.close()
    async with keeper(short_tmp) as later:
        assert {name: sorted(found.fds) for name, found in later.found.items()} == {
            f"m{n}": ["stderr", "stdout"] for n in range(150)
        }
    await own.reap()


async def test_output_of_a_background_job_comes_after_the_exit_c01(short_tmp: Path) -> None:
    """The exit is told at once, though a job holds the pipe and still writes."""
    line = "echo hi; exec 9<&0; { read x <&9; echo job; } & exit 5"
    async with keeper(short_tmp) as own:
        process = await own.client.spawn(shell(line, stdin="pipe"))
        assert os.waitstatus_to_exitcode(await own.exit("p")) == 5
        os.close(process.fds.pop("stdin"))
        own.client.close_name("p", "stdin")
        assert await read_to_end(process.fds["stdout"]) == b"hi\njob\n"
        process.close()


async def test_an_end_is_told_once(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a command is found ended while the word of its end is still on the way."""
    async with keeper(short_tmp) as own:
        told: list[str] = []
        monkeypatch.setattr(own.client._roster, "_on_exit", lambda key, *rest: told.append(key))
        own.client._roster.ended(ProcessExit("found", 0, {}, 1.0))
        await own.settle()
        assert told == []
