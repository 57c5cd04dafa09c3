"""Whatever happens to server, keeper, watchers and the way between them, no byte is lost or doubled."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos.world import World, world
from tests.support import pass_time

_BREATH = 0.5
"""Most seconds between two faults."""
_KILLS = 200


def _seed() -> int:
    """Return the seed of this run: `EXECZMQ_CHAOS_SEED`, or a new one."""
    return int(os.environ.get("EXECZMQ_CHAOS_SEED") or random.randrange(2**32))


async def _round(seed: int, folder: Path, *, commands: int, seconds: float) -> None:
    print(f"chaos: EXECZMQ_CHAOS_SEED={seed}", flush=True)
    async with world(seed, folder, seconds) as made:
        await made.begin(commands)
        await made.watch()
        await made.watch_far_away()
        await _torment(made, seconds)
        await made.check()


async def _torment(made: World, seconds: float) -> None:
    kinds, weights = zip(*faults.FAULTS, strict=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        [fault] = made.chance.choices(kinds, weights)
        print(f"chaos: {seconds - (end - time.monotonic()):5.1f} s {fault.__name__}", flush=True)
        await fault(made)
        await pass_time(made.chance.uniform(0, _BREATH))


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_chaos_in_short(short_tmp: Path) -> None:
    """Twelve commands, two watchers and more, some ten faults."""
    await _round(_seed(), short_tmp / "w", commands=12, seconds=8.0)


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_chaos(short_tmp: Path) -> None:
    """Rounds with twenty commands for five minutes."""
    seed, end, number = _seed(), time.monotonic() + 300, 0
    while time.monotonic() < end:
        await _round(seed + number, short_tmp / f"w{number}", commands=20, seconds=20.0)
        number += 1


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_two_hundred_kills(short_tmp: Path) -> None:
    """Twenty commands and a server that is killed at 200 random moments; 99 of 100 times it is soon back."""
    seed, absences = _seed(), []
    print(f"chaos: EXECZMQ_CHAOS_SEED={seed}", flush=True)
    async with world(seed, short_tmp / "w", _KILLS * 1.2) as made:
        await made.begin(20)
        await made.watch()
        for _ in range(_KILLS):
            await pass_time(made.chance.uniform(0, _BREATH))
            begin = time.monotonic()
            await faults.kill_server(made, absence=0.0)
            await made.client.info()
            absences.append(time.monotonic() - begin)
        print(f"chaos: away for {' '.join(f'{seconds:.2f}' for seconds in sorted(absences))} s", flush=True)
        await made.check()
    absences.sort()
    p50, p99 = (absences[int(_KILLS * part)] for part in (0.5, 0.99))
    print(
        f"chaos: {_KILLS} kills, away for {p50:.2f} s (p50), {p99:.2f} s (p99), {absences[-1]:.2f} s at most"
    )
    assert p99 < 1.0
