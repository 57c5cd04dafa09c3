"""Many sandboxes, in turns and at once: nothing is left of them on the host, in the server or its keeper."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from execzmq.keeper.tree import descendants
from execzmq.sandbox.cgroup_plan import prefix_of
from execzmq.settings import MIB
from execzmq.types.backend import ExecBackend
from execzmq.types.params import ExecParams, Limits, SandboxIntent
from tests.commands import all_events, end_of, shell, until_output, words
from tests.servers import MOST_MEMORY, ServerProcess, serving
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

AT_ONCE = 4
WARM = 40
"""Commands after which a server has made what it keeps."""


@pytest.fixture
def root(home_root: Path) -> Path:
    """The workspace."""
    folder = home_root / "ws"
    folder.mkdir()
    return folder


def inside(params: ExecParams, *roots: Path) -> ExecParams:
    """Return the same start in a sandbox that writes to the roots."""
    values = {name: getattr(params, name) for name in params.__slots__}
    intent = SandboxIntent("workspace-write", tuple(os.fsencode(root) for root in roots))
    return ExecParams(**{**values, "sandbox": intent, "cwd": os.fsencode(roots[0])})


@pytest.fixture
def trials(home_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the servers of a test try sandboxes: others may do so on this machine at the same time."""
    folder = home_root / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def on_the_host(folder: Path) -> list[str]:
    """Return what sandboxes might leave on this machine: mounts, and folders of trials."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in mounts if str(folder.parent) in line] + [str(path) for path in folder.iterdir()]


def groups(server: ServerProcess) -> list[Path]:
    """Return the control groups that a server has made."""
    return list(Path("/sys/fs/cgroup").glob(f"*/**/{prefix_of(str(server.state))}*"))


class Belongings:
    """What a server and its keeper have.

    Right after a command there may be more than stays: a thread that looks at the machine, its descriptors, a
    wrapper that is just ending. So what is left is what is there now and was not before.
    """

    def __init__(self, server: ServerProcess) -> None:
        (self._keeper,) = (pid for pid in descendants(server.pid) if is_keeper(pid))
        self._server = server
        self._counts, self._things = self._now()

    def left(self) -> list[str]:
        """Return what there is more of: descriptors, threads, the keeper's children, files of the state."""
        counts, things = self._now()
        more = [f"{name} {count}" for name, count in counts.items() if count > self._counts[name]]
        return [*more, *sorted(things - self._things)]

    def _now(self) -> tuple[dict[str, int], set[str]]:
        pids = {"server": self._server.pid, "keeper": self._keeper}
        counts = {
            f"{who} {what}": len(os.listdir(f"/proc/{pid}/{what}"))
            for who, pid in pids.items()
            for what in ("fd", "task")
        }
        journal = self._server.state / "placeholders"
        counts["journal"] = journal.stat().st_size if journal.exists() else 0
        files = {str(path) for path in self._server.state.rglob("*")}
        return counts, {f"child {pid}" for pid in descendants(self._keeper)} | files


def is_keeper(pid: int) -> bool:
    """Tell whether a process is a keeper."""
    return b"execzmq.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()


async def in_turns(count: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` as often, a few at a time."""

    async def several() -> None:
        for _ in range(count // AT_ONCE):
            await work()

    await asyncio.gather(*(several() for _ in range(AT_ONCE)))


async def is_empty(*roots: Path) -> None:
    """Wait until nothing is in the roots."""
    await asyncio.to_thread(wait_until, lambda: not any(any(root.iterdir()) for root in roots), 20.0)


async def many_in_turns(count: int, root: Path, trials: Path) -> None:
    """Run `count` short commands through one server, and look at what is left after them."""
    with serving() as server:
        async with server.backend() as backend:

            async def one() -> None:
                process = await backend.start(inside(words("true", log_budget=MIB), root))
                assert end_of(await all_events(process)).exit_code == 0
                await process.forget()

            await in_turns(WARM, one)
            await is_empty(root)
            belongings, memory = Belongings(server), server.memory()
            await in_turns(count, one)
            await is_empty(root)
            await asyncio.to_thread(nothing_is_left, belongings)
            print(f"{count} sandboxes: {server.memory() - memory} bytes more in the server")
            assert server.memory() - memory < 10 * MIB
            assert server.peak_memory() < MOST_MEMORY
    await is_empty(root)
    assert not on_the_host(trials)


def nothing_is_left(belongings: Belongings) -> None:
    """Wait until nothing is left; say what is, where that does not come."""
    try:
        wait_until(lambda: not belongings.left(), 20.0)
    except TimeoutError:
        assert not belongings.left()


@pytest.mark.timeout(240)
async def test_many_in_turns(root: Path, trials: Path) -> None:
    """A thousand short commands leave nothing."""
    await many_in_turns(1000, root, trials)


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_many_in_turns_at_length(root: Path, trials: Path) -> None:
    """Ten thousand of them."""
    await many_in_turns(10_000, root, trials)


async def hold(backend: ExecBackend, line: str, *roots: Path) -> Callable[[], Awaitable[int | None]]:
    """Start a command that waits; return what lets it end, and tells its exit code."""
    process = await backend.start(inside(shell(f"echo ready; read x; {line}", stdin="pipe"), *roots))
    await until_output(process, b"ready")

    async def let_go() -> int | None:
        await process.write(b"\n", end=True)
        return end_of(await all_events(process)).exit_code

    return let_go


async def test_two_share_a_root(root: Path) -> None:
    """What is kept missing stays so for the one that lives longer, whose server it be, and goes after it."""
    with serving("a") as a, serving("b") as b:
        async with a.backend() as one, a.backend() as same, b.backend() as other:
            for first, second in ((one, same), (one, other), (other, one)):
                short, long = await asyncio.gather(
                    hold(first, "true", root), hold(second, "! mkdir .git .git/x", root)
                )
                assert await short() == 0
                assert await long() == 0
                await is_empty(root)


async def test_one_server_ends_while_the_sandbox_of_another_shares_its_root(root: Path) -> None:
    """The cover that the other needs stays."""
    with serving("b") as b:
        async with b.backend() as other:
            with serving("a") as a:
                async with a.backend() as one:
                    await (await hold(one, "true", root))()
                    short = await hold(one, "true", root)
                    long = await hold(other, "! mkdir .git .git/x", root)
                    await short()
            assert await long() == 0


async def test_a_hundred_roots(home_root: Path) -> None:
    """One command writes to a hundred folders, and none of them has anything else in it then."""
    roots = [home_root / "r" / str(number) for number in range(100)]
    for folder in roots:
        folder.mkdir(parents=True)
    with serving() as server:
        async with server.backend() as backend:
            line = "for n in $(seq 0 99); do echo 1 > ../$n/a && rm ../$n/a || exit 9; done"
            let_go = await hold(backend, line, *roots)
            assert await let_go() == 0
            await is_empty(*roots)


async def test_limits_leave_no_control_group(root: Path) -> None:
    """Groups go with their sandboxes."""
    with serving() as server:
        async with server.backend() as backend:

            async def one() -> None:
                limits = Limits(memory=200 * MIB, processes=20)
                process = await backend.start(inside(shell("sleep 0.01 & true", limits=limits), root))
                assert end_of(await all_events(process)).exit_code == 0

            await in_turns(20, one)
            await asyncio.to_thread(wait_until, lambda: not groups(server), 20.0)
