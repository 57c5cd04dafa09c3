"""Server and keeper are killed at random moments: no byte of output or input is lost or doubled, and no seq.

A failed test prints its seed; `EXECZMQ_TEST_SEED=N` repeats it as far as chance allows.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from execzmq.client.remote import RemoteBackend, RemoteProcess
from execzmq.errors import ServerLost
from execzmq.types.events import Closed, Event, Failed, last_seq_of
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    is_alive,
    output_of,
    until_output,
    words,
)
from tests.end_to_end import producer
from tests.servers import SERVE, ServerProcess
from tests.support import pass_time, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

INPUT_BYTES = 300_000
PIECE = 7_000
BUDGET = 1 << 30
"""So much is kept that nothing is dropped."""


class Producer:
    """One command, what it is fed, and what a watcher saw of it from its first event to its last."""

    def __init__(self, process: RemoteProcess, report: Path, chance: random.Random) -> None:
        self.process = process
        self.report = report
        self.input = chance.randbytes(INPUT_BYTES)
        self.watched: asyncio.Task[list[Event]] = asyncio.ensure_future(self._watch())
        self.fed: asyncio.Task[None] = asyncio.ensure_future(self._feed())

    async def _watch(self) -> list[Event]:
        """Return every event; where no server came back in time, go on after the last seq."""
        seen: list[Event] = []
        while not seen or not isinstance(seen[-1], Closed | Failed):
            with contextlib.suppress(ServerLost):
                async for event in self.process.subscribe_events(last_seq_of(seen[-1]) if seen else 0):
                    seen.append(event)  # noqa: PERF401  # what came before an error counts
            await pass_time(0.05)
        return seen

    async def _feed(self) -> None:
        """Write all of the input; where a write's outcome is not known, go on where it came to."""
        writer = self.process.begin_writing(is_first=True)
        done, is_known = 0, True
        while done < INPUT_BYTES:
            with contextlib.suppress(ServerLost):
                if not is_known:
                    await writer._learn_offset()
                    done, is_known = writer._offset, True
                is_known = False
                await writer.write(self.input[done : done + PIECE], False)
                done, is_known = done + PIECE, True
            await pass_time(0.05)

    def check(self, events: list[Event]) -> int:
        """Compare events with what the command says of itself; return the bytes of output."""
        truth = json.loads(self.report.read_text())
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        found = {name: hashlib.sha256(output_of(events, name)).hexdigest() for name in ("stdout", "stderr")}
        assert {**found, "stdin": hashlib.sha256(self.input).hexdigest()} == truth
        assert (end_of(events).cause, end_of(events).exit_code) == ("exited", 42)
        return len(output_of(events))


class Stage:
    """A server that can be killed and replaced, and commands that outlive it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.server = ServerProcess("t", ())
        self.producers: list[Producer] = []
        self.restarts: list[float] = []

    async def play(self, count: int, disturb: Callable[["Stage"], Awaitable[None]]) -> str:
        """Run `count` commands while they are disturbed; check them, and return figures."""
        backend = await RemoteBackend.open(self.server.info, 20.0)
        try:
            for number in range(count):
                self.producers.append(await self._begin(backend, number))
            await disturb(self)
            (self.folder / "stop").touch()
            async with asyncio.timeout(60):
                for one in self.producers:
                    await one.fed
                watched = [await one.watched for one in self.producers]
        except BaseException:
            print(self.server.log.read_text()[-6000:])
            raise
        finally:
            for one in self.producers:
                one.watched.cancel()
                one.fed.cancel()
            everything = [task for one in self.producers for task in (one.watched, one.fed)]
            await asyncio.gather(*everything, return_exceptions=True)
            await backend.aclose()
        size = sum(one.check(events) for one, events in zip(self.producers, watched, strict=True))
        async with self.server.backend() as late:
            for one, events in zip(self.producers, watched, strict=True):
                process = await late.attach(one.process.process_id)
                assert await all_events(process, seconds=60.0) == events
        return f"{size} bytes of output; " + _figures(self.restarts)

    async def _begin(self, backend: RemoteBackend, number: int) -> Producer:
        report = self.folder / f"report{number}"
        command = words(
            sys.executable,
            producer.__file__,
            str(self.chance.randrange(1 << 30)),
            str(report),
            str(self.folder / "stop"),
            str(INPUT_BYTES),
            process_id=f"p{number}",
            tty=number % 2 == 1,
            stdin="pipe",
            log_budget=BUDGET,
        )
        process = await backend.start(command)
        await until_output(process, b"\n")  # its terminal is raw by now
        return Producer(process, report, self.chance)

    async def pause(self, most: float) -> None:
        """Wait for a random time."""
        await pass_time(self.chance.random() * most)

    async def kill_server(self) -> None:
        """Kill the server and have another; now and then one that is killed while it begins."""
        await asyncio.to_thread(self.server.kill)
        await self.pause(0.15)
        while self.chance.random() < 0.15:
            begun = await asyncio.create_subprocess_exec(*SERVE, "--name", "t", stderr=subprocess.DEVNULL)
            await self.pause(0.8)
            begun.kill()
            await begun.wait()
        begin = time.monotonic()
        self.server = await asyncio.to_thread(ServerProcess, "t", ())
        self.restarts.append(time.monotonic() - begin)

    def kill_keeper(self) -> None:
        """Kill the keeper as soon as there is one."""
        wait_until(lambda: bool(keepers_of(self.server.state)))
        for keeper in keepers_of(self.server.state):
            os.kill(keeper, signal.SIGKILL)
            wait_until(partial(is_gone, keeper))

    def has_adopted(self) -> bool:
        """Tell whether the keeper holds all commands."""
        links: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            for keeper in keepers_of(self.server.state):
                folder = f"/proc/{keeper}/fd"
                links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
        return links.count("anon_inode:[pidfd]") == len(self.producers)

    def close(self) -> None:
        """End everything."""
        self.server.close()


def _figures(seconds: list[float]) -> str:
    if not seconds:
        return "no restart"
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{len(ordered)} restarts, median {ordered[len(ordered) // 2]:.2f} s, p99 {p99:.2f} s"


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended and given back what it held."""
    return not is_alive(pid)


def keepers_of(state: Path) -> list[int]:
    """Return the pids of the living keepers of a state folder."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if os.fsencode(state) in words and any(b"execzmq.keeper.main" in word for word in words):
                found.append(int(name))
    return found


@contextlib.asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Have a stage whose chance has a seed that is told."""
    seed = int(os.environ.get("EXECZMQ_TEST_SEED", random.randrange(1 << 30)))
    print(f"EXECZMQ_TEST_SEED={seed}")
    stage = Stage(folder, random.Random(seed))
    try:
        yield stage
    finally:
        await asyncio.to_thread(stage.close)


async def kill_servers(stage: Stage, kills: int) -> None:
    """Kill one server after the other."""
    for _ in range(kills):
        await stage.pause(0.4)
        await stage.kill_server()


async def kill_keepers(stage: Stage, kills: int) -> None:
    """Kill one keeper after the other, also in the middle of a handover."""
    for _ in range(kills):
        await stage.pause(0.4)
        await asyncio.to_thread(stage.kill_keeper)


async def kill_both_in_turn(stage: Stage, kills: int) -> None:
    """Kill keepers and servers, but a server only when the keeper has everything."""
    for _ in range(kills):
        await stage.pause(0.3)
        if stage.chance.random() < 0.5:
            await asyncio.to_thread(stage.kill_keeper)
        await asyncio.to_thread(wait_until, stage.has_adopted)
        if stage.chance.random() < 0.5:
            await stage.kill_server()


async def test_server_is_killed(short_tmp: Path) -> None:
    """At six random moments: every byte, every seq, every status."""
    async with staged(short_tmp) as stage:
        print(await stage.play(4, lambda stage: kill_servers(stage, 6)))


async def test_keeper_is_killed(short_tmp: Path) -> None:
    """At ten random moments: the server goes on reading, and another keeper has what the last one had."""
    async with staged(short_tmp) as stage:
        print(await stage.play(4, lambda stage: kill_keepers(stage, 10)))


async def test_keeper_and_then_server_are_killed(short_tmp: Path) -> None:
    """What the second keeper was handed it drains, ends and hands over as the first would have."""
    async with staged(short_tmp) as stage:
        print(await stage.play(4, lambda stage: kill_both_in_turn(stage, 8)))


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_server_is_killed_two_hundred_times(short_tmp: Path) -> None:
    """The same with 200 kills."""
    async with staged(short_tmp) as stage:
        print(await stage.play(4, lambda stage: kill_servers(stage, 200)))


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_keeper_and_server_are_killed_two_hundred_times(short_tmp: Path) -> None:
    """The same with either."""
    async with staged(short_tmp) as stage:
        print(await stage.play(4, lambda stage: kill_both_in_turn(stage, 200)))
