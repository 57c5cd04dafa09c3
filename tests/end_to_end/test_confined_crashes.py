"""Server and keeper are killed while sandboxed commands start: none of them ever runs without what holds it.

A failed test prints its seed; `EXECZMQ_TEST_SEED=N` repeats it as far as chance allows.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from execzmq.client.remote import RemoteBackend
from execzmq.errors import ExecZMQError
from execzmq.types.params import ExecParams, Limits, NetworkMode, SandboxIntent
from execzmq.types.results import ProcessInfo
from tests.commands import shell, words
from tests.end_to_end import confinement
from tests.end_to_end.confinement import (
    FILE_SIZE,
    MEMORY,
    PROCESSES,
    companions,
    did_run,
    faults_of,
    has_internet,
    seen,
)
from tests.end_to_end.test_crashes import keepers_of
from tests.servers import ServerProcess
from tests.support import deadline, pass_time, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

FAULTS = "server server stop keeper both replace"
NETWORKS: tuple[NetworkMode, ...] = ("none", "none", "proxy", "internet" if has_internet() else "none")
AT_ONCE = 4
MOST_DELAY = 0.15
SECONDS = 12.0
LIMITS = Limits(memory=MEMORY, processes=PROCESSES, file_size=FILE_SIZE)


class Siege:
    """A server under which sandboxed commands are started and that, or whose keeper, is killed meanwhile."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.chance = chance
        self.server = ServerProcess("t", ())
        self._companions = companions()
        self.counts = {"started": 0, "ran": 0, "rounds": 0}

    def start_of(self, process_id: str) -> ExecParams:
        """Return the start of a command; now and then at a terminal, with a network."""
        intent = SandboxIntent(
            "workspace-write",
            (os.fsencode(self.root),),
            network=self.chance.choice(NETWORKS),
        )
        return words(
            *("/bin/sh", "-c", confinement.LINE, process_id),
            process_id=process_id,
            cwd=os.fsencode(self.root),
            sandbox=intent,
            limits=LIMITS,
            tty=self.chance.random() < 0.3,
        )

    async def round(self, faults: str) -> None:
        """Start some commands, do one of the faults at some moment, and look at what has become of it."""
        ids = [f"r{self.counts['rounds']}-{number}" for number in range(self.chance.randint(1, AT_ONCE))]
        fault = self.chance.choice(faults.split())
        print(f"round {self.counts['rounds']}: {fault}", flush=True)
        async with self.server.backend() as backend:
            await _warm(backend)
            starts = [asyncio.ensure_future(backend.start(self.start_of(one))) for one in ids]
            await pass_time(self.chance.uniform(0, MOST_DELAY))
            await self.strike(fault)
            self.look(ids)
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        if self.server.process.poll() is not None:
            self.server = await asyncio.to_thread(ServerProcess, "t", ())
        self.look(ids)
        await self.settle(ids)
        self.counts["rounds"] += 1
        self.counts["started"] += len(ids)
        self.counts["ran"] += sum(did_run(self.root, one) for one in ids)

    async def strike(self, fault: str) -> None:
        """Do one fault."""
        if fault == "stop":
            self.server.signal(signal.SIGSTOP)
            await pass_time(self.chance.uniform(0, MOST_DELAY))
            if self.chance.random() < 0.5:
                self.server.signal(signal.SIGCONT)
                await pass_time(self.chance.uniform(0, MOST_DELAY))
            fault = "server"
        keepers = keepers_of(self.server.state) if fault in ("keeper", "both") else []
        if fault in ("server", "both"):
            self.server.signal(signal.SIGKILL)
        if fault == "replace":
            before, self.server = self.server, await asyncio.to_thread(ServerProcess, "t", ("--replace",))
            await asyncio.to_thread(before.wait)
        for pid in keepers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if fault in ("server", "both"):
            await asyncio.to_thread(self.server.wait)

    def look(self, ids: list[str]) -> None:
        """Check every command that runs."""
        for process_id in ids:
            for one in seen(process_id.encode()):
                if one.words[0] == b"/bin/sh":
                    assert not (found := faults_of(one.pid)), (process_id, found)

    async def settle(self, ids: list[str]) -> None:
        """Find that nothing waits for ever, that what has failed has not run; end all."""
        async with self.server.backend() as backend:
            states = await _states(backend)
            for process_id in ids:
                await _until(partial(_is_past, process_id), partial(_described, process_id, states))
                info = states.get(process_id)
                if info is None or info.state == "failed":
                    assert not did_run(self.root, process_id), (process_id, info)
                elif info.state == "running":
                    assert info.sandbox is not None
                    names = set(info.sandbox["limits_enforced"])
                    assert names == {"memory", "processes", "file_size"}, (process_id, names)
                    await _until(partial(did_run, self.root, process_id))
                else:
                    assert info.result is not None
                    assert info.result.cause == "server_lost", (process_id, info)
                if info is not None and info.state != "failed":
                    await (await backend.attach(process_id)).terminate(grace=0.0)
                await _until(partial(_is_gone, process_id))

    def close(self) -> None:
        """End everything, and find that nothing is left."""
        self.server.close()
        assert not confinement.groups_of(self.server.state)
        wait_until(lambda: companions() <= self._companions)
        assert not [path for path in self.root.iterdir() if not path.name.startswith(("ran-", "begun-"))]
        print(self.counts)


async def _warm(backend: RemoteBackend) -> None:
    """Let the server find what it needs once: what is tried is the start itself."""
    async with deadline(20):
        while True:
            with contextlib.suppress(ExecZMQError):
                process = await backend.start(shell("true", cwd=b"/", sandbox=SandboxIntent("read-only")))
                await process.wait("closed", 10)
                await process.forget()
                return
            await pass_time(0.02)


async def _until(condition: Callable[[], bool], describe: Callable[[], str] = str) -> None:
    try:
        await asyncio.to_thread(wait_until, condition, 10.0)
    except TimeoutError as error:
        raise AssertionError(describe()) from error


def _described(process_id: str, states: dict[str, ProcessInfo]) -> str:
    """Say what is known of a command, for who looks for a fault."""
    found = [f"{one.pid} of {_stat(one.pid)}: {one.words[0]!r}" for one in seen(process_id.encode())]
    info = states.get(process_id)
    return f"{process_id}: {info and (info.state, info.failure, info.result)}; {found}"


def _stat(pid: int) -> str:
    """Return state, parent, group and session of a process, and where it waits."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        return f"{stat} {Path(f'/proc/{pid}/syscall').read_text().split()[:2]}"
    return "gone"


async def _states(backend: RemoteBackend) -> dict[str, ProcessInfo]:
    """Return what there is, when nothing is being started."""
    async with deadline(20):
        while True:
            found = {one.process_id: one for one in await backend.list_processes()}
            if all(one.state != "starting" for one in found.values()):
                return found
            await pass_time(0.02)


def _is_past(process_id: str) -> bool:
    """Tell whether bubblewrap has executed what it was to, or is gone."""
    found = seen(process_id.encode())
    return not found or not all(one.is_wrapper for one in found)


def _is_gone(process_id: str) -> bool:
    return not seen(process_id.encode())


@contextlib.asynccontextmanager
async def besieged(folder: Path) -> AsyncIterator[Siege]:
    """Have a siege whose chance has a seed that is told."""
    seed = int(os.environ.get("EXECZMQ_TEST_SEED", random.randrange(1 << 30)))
    print(f"EXECZMQ_TEST_SEED={seed}")
    siege = Siege(folder, random.Random(seed))
    try:
        yield siege
    except BaseException:
        print(siege.server.log.read_text()[-6000:])
        with contextlib.suppress(BaseException):
            await asyncio.to_thread(siege.server.close)
        raise
    await asyncio.to_thread(siege.close)


async def _besiege(root: Path, faults: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    async with besieged(root) as siege:
        while time.monotonic() < end:
            await siege.round(faults)


@pytest.fixture
def root(home_root: Path) -> Path:
    """A folder that sandboxed commands may write to."""
    folder = home_root / "ws"
    folder.mkdir()
    return folder


async def test_no_command_runs_without_its_limits(root: Path) -> None:
    """Whatever is killed or stopped at whatever moment of the start."""
    await _besiege(root, FAULTS, SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_no_command_runs_without_its_limits_for_long(root: Path) -> None:
    """The same for ten minutes."""
    await _besiege(root, FAULTS, 600.0)
