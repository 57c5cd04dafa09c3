"""A network that is cut and heals: every byte comes once and in order, and what goes on goes on by itself."""

import asyncio
import itertools
import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from execzmq.settings import HEARTBEAT_TIMEOUT, SERVER_GONE
from tests.networks.commands import EXIT_CODE
from tests.networks.links import SlowLink
from tests.networks.world import Cut, World, world
from tests.support import ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_FLOOD = 70_000_000
"""Bytes, more than the budget of one command."""
_TRICKLE = 300_000
"""Bytes that take a few seconds where packets are lost."""
_NOTICED = (HEARTBEAT_TIMEOUT + SERVER_GONE - 1, HEARTBEAT_TIMEOUT + SERVER_GONE + 5)
"""Seconds after a cut between which clients say that the server is lost."""


async def begin(made: World, seconds: float) -> None:
    """Start a command `c` that writes numbered lines for some seconds, and one `r` that reads its stdin."""
    await made.client.start(made.command("count", "c", str(seconds)), process_id="c")
    await made.client.start(made.command("read", "r"), process_id="r", stdin=True)


def check(sight: dict[str, Any], told: dict[str, Any]) -> None:
    """Find that a watcher has seen what a command says itself."""
    assert (sight["kinds"], sight["faults"], sight["lost"]) == (["started", "exited", "closed"], [], 0)
    assert (sight["exit_code"], sight["cause"]) == (EXIT_CODE, "exited")
    check_streams(sight, told)


def check_streams(said: dict[str, Any], told: dict[str, Any]) -> None:
    """Find that all that was written has been read, to the byte."""
    for name, value in told.items():
        if name != "ended":
            assert said["streams"][name] == value, f"{name} differs"


def after(times: list[float], cut: Cut) -> float:
    """Return the seconds from the healing to what came next."""
    return min(time for time in times if time > cut.healed) - cut.healed


def longest_gap(times: Iterable[float]) -> float:
    """Return the longest time in which nothing came."""
    return max(later - sooner for sooner, later in itertools.pairwise(times))


async def test_a_cut_of_five_seconds(short_tmp: Path, can_lose: None) -> None:
    """Of two far hosts one is cut off, and not told so: it goes on as soon as TCP does, each byte once.

    A starter's command has waited for it meanwhile. A watcher on the other host notices nothing.
    """
    os.mkfifo(go := short_tmp / "go")
    async with world(short_tmp, outposts=2) as made:
        outpost, other = made.outposts
        await begin(made, 7.0)
        *watchers, writer, starter = await asyncio.gather(
            outpost.watch("c"),
            other.watch("c"),
            outpost.feed("r", 6.0),
            outpost.run(made.command("flood", "f", str(_FLOOD), str(go))),
        )
        is_begun = await asyncio.to_thread(open, go, "wb")  # when the command has opened it
        async with outpost.cut(5.0, silently=True) as cut:
            is_begun.close()
        sights = [await watcher.said() for watcher in watchers]
        fed, ran = await writer.said(), await starter.said()
    for sight in sights:
        check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
    check_streams(ran, made.told("f"))
    assert ran["exit_code"] == EXIT_CODE
    assert made.told("f")["ended"] > cut.healed
    arrivals, others = (sight["arrivals"] for sight in sights)
    assert longest_gap(arrivals) > 4.0
    assert longest_gap(time for time in others if cut.begun < time < cut.healed) < ms(2000)
    seconds = after(arrivals, cut), after(fed["taken"], cut)
    print("networks: after five seconds out {:.2f} s, in {:.2f} s".format(*seconds))
    assert max(seconds) < ms(10_000)


async def test_a_server_that_is_killed_during_a_cut(short_tmp: Path) -> None:
    """The next one takes over; a watcher and a writer that were cut off go on with it by themselves."""
    async with world(short_tmp, version=6) as made:
        [outpost] = made.outposts
        await begin(made, 4.0)
        watcher, writer = await asyncio.gather(outpost.watch("c"), outpost.feed("r", 3.0))
        async with outpost.cut(1.5) as cut:
            await asyncio.to_thread(made.server.kill)
            await asyncio.to_thread(made.start_server)
        sight, fed = await watcher.said(), await writer.said()
    check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
    assert not sight["server_lost"]
    assert max(after(sight["arrivals"], cut), after(fed["taken"], cut)) < ms(10_000)


async def test_loss_delay_and_packets_that_overtake(
    short_tmp: Path, can_lose: None, can_be_slow: None
) -> None:
    """Of 100 packets two are lost each way, each takes 50 ms and some overtake: all is right."""
    os.mkfifo(go := short_tmp / "go")
    make = partial(SlowLink, delay=0.05, jitter=0.01, reorder=2.0)
    async with world(short_tmp, make_link=make) as made:
        [outpost] = made.outposts
        await begin(made, 3.0)
        watcher, writer, starter = await asyncio.gather(
            outpost.watch("c"),
            outpost.feed("r", 2.0),
            outpost.run(made.command("flood", "f", str(_TRICKLE), str(go))),
        )
        outpost.link.lose(2.0)
        (await asyncio.to_thread(open, go, "wb")).close()
        begun = time.monotonic()
        sight, fed, ran = await watcher.said(), await writer.said(), await starter.said()
    check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
    check_streams(ran, made.told("f"))
    print(f"networks: {_TRICKLE / (ran['ended'] - begun) / 1000:.0f} kB/s, {len(fed['taken'])} writes in 2 s")


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("silently", [False, True])
async def test_a_cut_of_a_minute(short_tmp: Path, can_lose: None, silently: bool) -> None:
    """Who is cut off hears `ServerLost` in the first half of it, connects again, and goes on from there.

    The command of a starter that is cut off does not wait for it all the time.
    """
    os.mkfifo(go := short_tmp / "go")
    async with world(short_tmp) as made:
        [outpost] = made.outposts
        await begin(made, 70.0)
        watcher, writer, starter = await asyncio.gather(
            outpost.watch("c"),
            outpost.feed("r", 10.0),
            outpost.run(made.command("flood", "f", str(_FLOOD), str(go))),
        )
        is_begun = await asyncio.to_thread(open, go, "wb")
        async with outpost.cut(60.0, silently=silently) as cut:
            is_begun.close()
        sight, fed, ran = await watcher.said(), await writer.said(), await starter.said()
        late = await outpost.watch("c")
        assert (await late.said())["streams"] == sight["streams"]
    check(sight, made.told("c"))
    assert (fed["error"], ran["error"]) == ("ServerLost", "ServerLost")
    for lost in (fed["at"], ran["at"], sight["server_lost"][0]):
        assert _NOTICED[0] < lost - cut.begun < _NOTICED[1]
    assert made.told("f")["ended"] < cut.healed
    print(f"networks: a minute, lost {sight['server_lost']}, out {after(sight['arrivals'], cut):.2f} s")
    assert after(sight["arrivals"], cut) < 10.0
