"""ssh between two hosts whose cable is cut: who follows and who writes goes on by itself."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from execzmq.connection import state_folder
from tests.environments.conftest import name_environments
from tests.environments.sshd import SSH, SSHD, SshServer
from tests.networks.links import SlowLink
from tests.networks.test_cuts import after, begin, check, check_streams
from tests.networks.world import World, world
from tests.support import ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def can_log_in() -> None:
    """Skip where nobody can log in to a host of the test's."""
    if SSHD is None or SSH is None:
        pytest.skip("needs OpenSSH's client and server")
    if os.geteuid() != 0:
        pytest.skip("only root's sshd can run in a network of its own")


@contextlib.contextmanager
def logged_in(made: World, home_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """Let the clients of the outpost reach the server by ssh, where it is the environment `box`."""
    [outpost] = made.outposts
    near = outpost.link.near
    server = SshServer(home_root, outpost.link.address(), near.enter, home_root)
    monkeypatch.setenv("PATH", server.path)
    name_environments(server.environment(name=state_folder(made.server.name).name))
    outpost.file = Path("box")
    try:
        yield server
    finally:
        server.close()


async def test_a_cut_of_five_seconds(
    short_tmp: Path, home_root: Path, can_lose: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher and a writer are cut off for five seconds and not told so: each byte comes once."""
    async with world(short_tmp) as made:
        [outpost] = made.outposts
        with logged_in(made, home_root, monkeypatch):
            await begin(made, 7.0)
            watcher, writer = await asyncio.gather(outpost.watch("c"), outpost.feed("r", 6.0))
            async with outpost.cut(5.0, silently=True) as cut:
                pass
            sight, fed = await watcher.said(), await writer.said()
    check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
    assert not sight["server_lost"]
    assert max(after(sight["arrivals"], cut), after(fed["taken"], cut)) < ms(10_000)


async def test_connections_that_are_reset(
    short_tmp: Path, home_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that end, three times, are made anew before anybody hears of it."""
    async with world(short_tmp) as made:
        [outpost] = made.outposts
        with logged_in(made, home_root, monkeypatch) as server:
            await begin(made, 5.0)
            watcher, writer = await asyncio.gather(outpost.watch("c"), outpost.feed("r", 4.0))
            for _ in range(3):
                async with outpost.cut(0.5):
                    await asyncio.to_thread(server.cut)
            sight, fed = await watcher.said(), await writer.said()
    check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
    assert not sight["server_lost"]


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_cut_of_a_minute(
    short_tmp: Path, home_root: Path, can_lose: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is cut off hears `ServerLost`, connects again, and goes on from there."""
    async with world(short_tmp) as made:
        [outpost] = made.outposts
        with logged_in(made, home_root, monkeypatch):
            await begin(made, 70.0)
            watcher = await outpost.watch("c")
            async with outpost.cut(60.0, silently=True) as cut:
                pass
            sight = await watcher.said()
    check(sight, made.told("c"))
    assert cut.begun < sight["server_lost"][0] < cut.healed
    print(f"networks: ssh, a minute, lost {sight['server_lost']}, out {after(sight['arrivals'], cut):.2f} s")


async def test_loss_and_delay(
    short_tmp: Path, home_root: Path, can_lose: None, can_be_slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 packets two are lost each way, and each takes 50 ms: all is right."""
    async with world(short_tmp, make_link=partial(SlowLink, delay=0.05)) as made:
        [outpost] = made.outposts
        with logged_in(made, home_root, monkeypatch):
            outpost.link.lose(2.0)
            await begin(made, 12.0)
            watcher, writer = await asyncio.gather(outpost.watch("c"), outpost.feed("r", 2.0))
            sight, fed = await watcher.said(), await writer.said()
    check(sight, made.told("c"))
    check_streams(fed, made.told("r"))
