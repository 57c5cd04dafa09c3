"""A cluster of hosts that lose a worker, a server and their network: every command is accounted for."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from execzmq import connection
from tests.cluster import far
from tests.cluster.programs import SLOTS
from tests.networks import hosts
from tests.networks.links import Link
from tests.networks.world import Program
from tests.support import ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

FAR = 3
NOTICED = 45_000
"""Milliseconds in which a host that is cut off is known to be lost, and others have done its work."""


@pytest.fixture(autouse=True)
def can_have_hosts() -> None:
    """Skip where this machine lets nobody make hosts that can be cut off without being told."""
    if reason := hosts.why_not() or hosts.why_no_loss():
        pytest.skip(reason)


def test_two_hundred_commands_on_three_hosts(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker and one server are killed, one host cut off: what ran there is lost, the rest done, once."""
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(short_tmp))
    said, cut = asyncio.run(_work(short_tmp))
    print(f"cluster: all is known {said['ended'] - cut:.1f} s after a host was cut off")
    assert said["hosts"] == ["far1", "far2", "far3"]
    assert said["again"] == "on\n"
    assert said["ended"] - cut < ms(NOTICED)
    starts = Counter({n: _starts(short_tmp, n) for n in range(far.COMMANDS)})
    lost = [n for n, (cause, *_) in enumerate(said["results"]) if cause == "server_lost"]
    for n, (cause, code, stdout, host) in enumerate(said["results"]):
        if n in lost:
            assert (code, stdout, host) == (None, None, "far3")
            assert starts[n] <= 1
        else:
            assert (cause, code, stdout, starts[n]) == ("exited", 0, f"{n}\n", 1)
    # Those that ran there, and those before them whose end was not heard of any more.
    assert 1 <= len(lost) <= 2 * SLOTS


def _starts(folder: Path, number: int) -> int:
    """Return how often a command was started."""
    path = folder / f"c{number}"
    return path.read_text().count("started") if path.exists() else 0


async def _work(folder: Path) -> tuple[dict[str, Any], float]:
    """Have the work done; return what the program says, and when the last host was cut off."""
    hidden = [connection.state_folder("x").parents[1], connection.socket_folder("x").parent]
    for one in hidden:
        connection.private_folder(one)
    with contextlib.ExitStack() as stack:
        near, *others = stack.enter_context(hosts.made(FAR, hidden))
        links = [Link(near, host, number) for number, host in enumerate(others, 1)]
        words = [
            {"name": name, "host": name, "enter": link.far.enter_beside, "address": link.address()}
            for link in links
            if (name := f"far{links.index(link) + 1}")
        ]
        program = await Program.begin(near, far.__file__, str(folder), json.dumps(words))
        try:
            await program.ready()
            await program.ready()
            links[-1].silence()
            cut = time.monotonic()
            return await program.said(), cut
        finally:
            await program.close()
