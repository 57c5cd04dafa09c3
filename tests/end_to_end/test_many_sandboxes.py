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


def on_the_host() -> set[str]:
    """Return what sandboxes might leave on this machine: mounts, and folders of trials."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in mounts if "/xz-" in line} | set(map(str, Path("/tmp").glob("execzmq-try-*")))


def groups(server: ServerProcess) -> list[Path]:
    """Return the control groups that a server has made."""
    return list(Path("/sys/fs/cgroup").glob(f"*/**/{prefix_of(str(server.state))}*"))


class Belongings:
    """What a server and its keeper have."""

    def __init__(self, server: ServerProcess) -> None:
        (self._keeper,) = (pid for pid in descendants(server.pid) if is_keeper(pid))
        self._server = server

    def now(self) -> list[object]:
        """Return descriptors and threads of both, whom the keeper has as children, and the state's files."""
        pids = (self._server.pid, self._keeper)
        counts = [len(os.listdir(f"/proc/{pid}/{what}")) for pid in pids for what in ("fd", "task")]
        files = sorted(path.name for path in self._server.state.rglob("*"))
        journal = self._server.state / "placeholders"
        return [*counts, descendants(self._keeper), files, journal.stat().st_size if journal.exists() else 0]


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


async def many_in_turns(count: int, root: Path) -> None:
    """Run `count` short commands through one server, and look at what is left after them."""
    before = on_the_host()
    with serving() as server:
        async with server.backend() as backend:

            async def one() -> None:
                process = await backend.start(inside(words("true", log_budget=MIB), root))
                assert end_of(await all_events(process)).exit_code == 0
                await process.forget()

            await in_turns(WARM, one)
            await is_empty(root)
            belongings = Belongings(server)
            had, memory = belongings.now(), server.memory()
            await in_turns(count, one)
            await is_empty(root)
            await asyncio.to_thread(wait_until, lambda: belongings.now() == had, 20.0)
            print(f"{count} sandboxes: {server.memory() - memory} bytes more in the server")
            assert server.memory() - memory < 10 * MIB
            assert server.peak_memory() < MOST_MEMORY
    await is_empty(root)
    assert on_the_host() <= before


@pytest.mark.timeout(240)
async def test_many_in_turns(root: Path) -> None:
    """A thousand short commands leave nothing."""
    await many_in_turns(1000, root)


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_many_in_turns_at_length(root: Path) -> None:
    """Ten thousand of them."""
    await many_in_turns(10_000, root)


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
