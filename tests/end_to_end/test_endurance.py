"""A server that is used without pause for long stays as it was: memory, descriptors, threads and disk."""

import asyncio
import os
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from execzmq.client.remote import RemoteBackend
from execzmq.settings import MIB
from tests.commands import all_events, kinds_of, words
from tests.servers import ServerProcess, serving
from tests.support import pass_time

_OUTPUT = 20_000
"""Bytes that each command writes."""


@dataclass
class Use:
    """What a server uses: bytes in memory and on disk, descriptors, threads."""

    memory: float
    disk: float
    descriptors: float
    threads: float

    @classmethod
    def of(cls, server: ServerProcess) -> "Use":
        """Look at a server."""
        files = (os.path.join(path, name) for path, _, names in os.walk(server.state) for name in names)
        return cls(
            server.memory(),
            sum(map(_size_of, files)),
            server.descriptors(),
            len(os.listdir(f"/proc/{server.pid}/task")),
        )

    @classmethod
    def median(cls, seen: list["Use"]) -> "Use":
        """Return the median of each figure."""
        return cls(**{name: statistics.median(asdict(use)[name] for use in seen) for name in asdict(seen[0])})


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_blocks * 512
    except FileNotFoundError:  # dropped meanwhile
        return 0


async def _client(backend: RemoteBackend, numbers: range, begin: float, rate: float) -> None:
    """Start each command at its time, `number / rate` seconds after `begin`; follow every second one."""
    for number in numbers:
        await pass_time(max(0.0, begin + number / rate - time.monotonic()))
        process = await backend.start(words("head", "-c", str(_OUTPUT), "/dev/zero"))
        if number % 2:
            assert kinds_of(await all_events(process))[-1] == "closed"
        else:
            assert (await process.wait("closed", 20.0)).closed


async def endure(clients: int, rate: float, seconds: float) -> tuple[Use, Use]:
    """Let `clients` start `rate` commands a second; return what is used at half time and at the end."""
    count, part = int(rate * seconds), seconds / 16
    with serving() as server:
        async with AsyncExitStack() as stack:
            backends = [await stack.enter_async_context(server.backend()) for _ in range(clients)]
            begin = time.monotonic()
            tasks = [
                asyncio.ensure_future(_client(backend, range(number, count, clients), begin, rate))
                for number, backend in enumerate(backends)
            ]
            seen: list[tuple[float, Use]] = []
            while not all(task.done() for task in tasks):
                seen.append((time.monotonic() - begin, await asyncio.to_thread(Use.of, server)))
                await asyncio.wait(tasks, timeout=part / 8)
            await asyncio.gather(*tasks)
    half, end = (
        Use.median([use for at, use in seen if mark - part <= at <= mark]) for mark in (seconds / 2, seconds)
    )
    print(f"\n{clients} clients, {rate:g} starts/s, {seconds:g} s: half time {half}, end {end}")
    print("MB in memory:", *(round(use.memory / MIB) for _, use in seen[:: max(1, len(seen) // 40)]))
    return half, end


@pytest.mark.slow
async def test_descriptors_and_threads_stay() -> None:
    """In some seconds as many are used at the end as at half time, but for those of commands under way."""
    half, end = await endure(10, 25.0, 10.0)
    assert abs(end.descriptors - half.descriptors) <= 8
    assert end.threads == half.threads


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_eight_minutes() -> None:
    """Sixty clients start 50 commands a second; after the fourth minute nothing grows by more than 5 %."""
    half, end = await endure(60, 50.0, 480.0)
    for name, before in asdict(half).items():
        assert asdict(end)[name] <= before * 1.05, name
