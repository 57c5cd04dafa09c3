"""The network `internet` of a sandbox: what is reached, and how long its companion lives."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from execzmq.backends.local import LocalBackend
from execzmq.errors import SandboxUnavailable
from execzmq.keeper.tree import descendants
from execzmq.sandbox import slirp
from execzmq.types.events import Notice
from execzmq.types.params import ExecParams, SandboxIntent
from tests.backends.internet import HOST
from tests.backends.lives import last_life, life
from tests.backends.test_orphans import replaced
from tests.commands import all_events, events_until, is_alive, shell, until_output
from tests.end_to_end.confinement import has_internet
from tests.support import deadline, program_env, wait_until

pytestmark = pytest.mark.slow
needs_slirp = pytest.mark.skipif(not has_internet(), reason="needs slirp4netns and /dev/net/tun")


def online(line: str) -> ExecParams:
    """Return the start of a shell line in a sandbox that has the internet."""
    return shell(
        line,
        process_id="i",
        cwd=b"/",
        stdin="pipe",
        sandbox=SandboxIntent("read-only", network="internet"),
    )


def companions(backend: LocalBackend) -> list[int]:
    """Return the companions below the keeper."""
    below = descendants(backend.keeper.pid)
    return [pid for pid in below if b"slirp4netns" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@needs_slirp
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network that stands for a host")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_the_host_is_reached_but_for_its_loopback_under_two_servers_escape_78() -> None:
    """The next server finds the network as it was; it ends with the sandbox."""
    network = f"ip link set lo up && ip address add {HOST}/32 dev lo"
    program = f"exec {sys.executable} -m tests.backends.internet"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f"{network} && {program}"],
        env=program_env(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=deadline(30).left(),
        check=True,
    )
    reached = [f"{HOST} hello", "10.0.2.2 none", "127.0.0.1 none"]
    assert done.stdout.splitlines() == [
        *reached,
        "nameserver 10.0.2.3",
        "first",
        *reached,
        "second",
        "left []",
    ]


@needs_slirp
async def test_the_end_of_the_network_is_told(folder: Path) -> None:
    """It is a notice of the process, which goes on; nothing is left of either."""
    async with last_life(folder) as backend:
        process = await backend.start(online("echo ready; read x"))
        [pid] = companions(backend)
        os.kill(pid, signal.SIGKILL)
        events = await events_until(process, lambda seen: isinstance(seen[-1], Notice))
        told = events[-1]
        assert isinstance(told, Notice)
        assert told.kind == "network_lost"
        await process.write(b"\n")
        await all_events(process)
        await asyncio.to_thread(wait_until, lambda: not descendants(backend.keeper.pid))


@needs_slirp
async def test_the_network_ends_with_the_sandbox_while_no_server_lives(folder: Path) -> None:
    """The keeper ends it, and then itself."""
    async with life(folder) as backend:
        keeper = backend.keeper.pid
        process = await backend.start(online("echo ready; sleep 0.3"))
        await until_output(process, b"ready")
        assert companions(backend)
    wait_until(lambda: not is_alive(keeper))
    async with last_life(folder) as backend:
        assert not [e for e in await all_events(await backend.attach("i")) if isinstance(e, Notice)]


@needs_slirp
async def test_the_end_of_the_network_while_no_server_lives_is_told_by_the_next(folder: Path) -> None:
    """It is no secret."""
    async with life(folder) as backend:
        await until_output(await backend.start(online("echo ready; read x")), b"ready")
        [pid] = companions(backend)
    os.kill(pid, signal.SIGKILL)
    async with last_life(folder) as backend:
        events = await events_until(await backend.attach("i"), lambda seen: isinstance(seen[-1], Notice))
        assert isinstance(events[-1], Notice)
        assert events[-1].kind == "network_lost"


@needs_slirp
async def test_the_network_outlives_its_keeper(folder: Path) -> None:
    """The next keeper holds it for the next server."""
    async with life(folder) as backend:
        process = await backend.start(online("echo ready; read x; cat /proc/net/dev; read x"))
        await until_output(process, b"ready")
        [pid] = companions(backend)
        await replaced(backend)
    async with last_life(folder) as backend:
        process = await backend.attach("i")
        await process.write(b"\n")
        await until_output(process, b"tap0")
        assert is_alive(pid)
        await process.write(b"\n")
        await all_events(process)
        await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


async def test_missing_program_is_told_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setattr(slirp.find, "__defaults__", ((b"/nosuch/slirp4netns",), slirp.TUN))
    async with last_life(folder) as backend:
        with pytest.raises(SandboxUnavailable, match="install the package slirp4netns"):
            await backend.start(online("true"))
        assert not len(backend.table)
