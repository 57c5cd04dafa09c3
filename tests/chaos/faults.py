"""Own what can happen to a world: each fault is done and, where it does not heal by itself, healed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from tests.chaos.world import World
from tests.servers import ServerProcess
from tests.support import pass_time

Fault: TypeAlias = Callable[[World], Awaitable[None]]

_LONGEST_STOP = 1.5
_LONGEST_ABSENCE = 1.0


async def kill_server(world: World, absence: float | None = None) -> None:
    """The server is killed, and another comes after a while, or after `absence` seconds."""
    if world.server.process.poll() is None:
        await asyncio.to_thread(world.server.kill)
    await pass_time(world.chance.uniform(0, _LONGEST_ABSENCE) if absence is None else absence)
    world.server = await asyncio.to_thread(ServerProcess, "chaos", ())


async def kill_server_twice(world: World) -> None:
    """The server is killed, and the next one while it takes over."""
    await asyncio.to_thread(world.server.kill)
    with contextlib.suppress(AssertionError):  # it was killed before it was ready
        begun = asyncio.create_task(asyncio.to_thread(ServerProcess, "chaos", ()))
        await pass_time(world.chance.uniform(0, 0.5))
        lock = world.server.state / "lock"
        with contextlib.suppress(ValueError, ProcessLookupError, FileNotFoundError):
            os.kill(int(await asyncio.to_thread(lock.read_text)), signal.SIGKILL)
        world.server = await begun
    await kill_server(world, 0.0)


async def hang_up_server(world: World) -> None:
    """The server ends in order and leaves its commands to the keeper; another comes at once."""
    world.server.signal(signal.SIGHUP)
    await asyncio.to_thread(world.server.wait)
    world.server = await asyncio.to_thread(ServerProcess, "chaos", ())


async def stop_server(world: World) -> None:
    """The server does nothing for a while."""
    await _stop(world, world.server.pid)


async def stop_keeper(world: World) -> None:
    """The keeper does nothing for a while."""
    for pid in await asyncio.to_thread(_keepers, world):
        await _stop(world, pid)


async def stop_witness(world: World) -> None:
    """A watcher does nothing for a while."""
    await _stop(world, world.chance.choice(world.witnesses).pid)


async def stall_way(world: World) -> None:
    """Nothing gets through to the far witness for a while, and then all does."""
    await _cut(world, "stall")


async def drop_way(world: World) -> None:
    """The far witness loses its connections and gets none for a while."""
    await _cut(world, "drop")


async def join_late(world: World) -> None:
    """One more watches, from the first event on."""
    await world.watch()


def _keepers(world: World) -> list[int]:
    """Return the pid of the world's keeper, which has its state folder in its command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if os.fsencode(world.server.state) in words:
                found.append(int(path.parent.name))
    return found


async def _stop(world: World, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        await pass_time(world.chance.uniform(0, _LONGEST_STOP))
        os.kill(pid, signal.SIGCONT)


async def _cut(world: World, word: str) -> None:
    await world.tell_relay(word)
    await pass_time(world.chance.uniform(0, _LONGEST_STOP))
    await world.tell_relay("heal")


FAULTS: tuple[tuple[Fault, int], ...] = (
    (kill_server, 6),
    (kill_server_twice, 2),
    (hang_up_server, 2),
    (stop_server, 2),
    (stop_keeper, 2),
    (stop_witness, 2),
    (stall_way, 2),
    (drop_way, 2),
    (join_late, 1),
)
"""Each fault with its weight."""
