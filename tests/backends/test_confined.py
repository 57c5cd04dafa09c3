"""Commands in a sandbox under every verb of the core: ends, signals, stdin, terminals, jobs, restarts."""

import asyncio
import contextlib
import dataclasses
import errno
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from execzmq.aside import aside
from execzmq.backends import starting
from execzmq.backends.local import LocalBackend
from execzmq.errors import (
    CommandNotFound,
    InvalidRequest,
    InvalidState,
    LimitExceeded,
    NotExecutable,
    SandboxUnavailable,
    SpawnFailed,
    WorkingDirectoryMissing,
)
from execzmq.keeper import landlock
from execzmq.keeper.client import SpawnedProcess
from execzmq.keeper.tree import descendants
from execzmq.sandbox.cgroups import Cgroups
from execzmq.types.params import LEAST_LIMITS, EnvPolicy, ExecParams, Limits, SandboxIntent, TtySize
from tests.backends.lives import last_life, life
from tests.commands import (
    all_events,
    end_of,
    is_alive,
    kinds_of,
    output_of,
    python,
    shell,
    until_output,
    words,
)
from tests.end_to_end.confinement import groups_of
from tests.escapes.site import base_folder
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow


SEEN = (os.fsencode(sys.prefix), os.fsencode(sys.base_prefix))
"""What the tests' interpreter needs, also where it lies in a `/tmp`."""


@contextlib.asynccontextmanager
async def private() -> AsyncIterator[LocalBackend]:
    """Have a backend of one's own."""
    own = await LocalBackend.open_private()
    try:
        yield own
    finally:
        await own.aclose()


@pytest.fixture
def config(home_root: Path) -> Callable[[str], None]:
    """Write the file of the user's own profiles."""

    def write(text: str) -> None:
        file = home_root / "c/execzmq/profiles.toml"
        file.parent.mkdir()
        file.write_text(text)

    return write


@pytest.fixture
def root(home_root: Path) -> Path:
    """A folder that sandboxed commands may write to."""
    folder = home_root / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that this user may write to, and that a sandbox shows as it is."""
    with tempfile.TemporaryDirectory(prefix="xz-", dir=base_folder()) as folder:
        yield Path(folder)


def confined(
    params: ExecParams, root: Path | None = None, profile: str = "workspace-write", **more: Any
) -> ExecParams:
    """Return the same start in a sandbox; without a root in one that only reads."""
    profile, roots = ("read-only", SEEN) if root is None else (profile, (os.fsencode(root),))
    values = {name: getattr(params, name) for name in params.__slots__}
    cwd = b"/" if root is None else os.fsencode(root)
    return ExecParams(**{**values, "sandbox": SandboxIntent(profile, roots, **more), "cwd": cwd})


async def nothing_is_left(backend: LocalBackend) -> None:
    """Wait until the keeper has no descendant any more."""
    pid = backend.keeper.pid
    await asyncio.to_thread(wait_until, lambda: not descendants(pid))


@pytest.mark.parametrize(
    ("line", "code", "signo"),
    [
        ("sleep 0.05; exit 0", 0, None),
        ("sleep 0.05; exit 7", 7, None),
        ("sleep 0.05; kill -9 $$", None, signal.SIGKILL),
        ("sleep 0.05; kill -SEGV $$", None, signal.SIGSEGV),
    ],
)
@pytest.mark.parametrize("tty", [False, True])
async def test_ends_are_told_as_they_were(line: str, code: int | None, signo: int | None, tty: bool) -> None:
    """Exit codes and signals are the command's own, by pipe and at a terminal."""
    async with private() as backend:
        process = await backend.start(confined(shell(line, tty=tty)))
        result = end_of(await all_events(process))
        assert (result.exit_code, result.signal) == (code, signo)
        await nothing_is_left(backend)


async def test_an_exit_code_is_not_taken_for_a_signal() -> None:
    """A shell that exits 137 was not killed, where the kernel tells the one from the other."""
    async with private() as backend:
        process = await backend.start(confined(shell("sleep 0.05; exit 137")))
        result = end_of(await all_events(process))
        assert result.exit_code == 137 or any("stands for a signal" in text for text in result.evidence)


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize(
    ("params", "error", "reason"),
    [
        (words("nosuch"), CommandNotFound, "not_found"),
        (words("/etc/passwd"), NotExecutable, "not_executable"),
        (words("/usr"), NotExecutable, "is_directory"),
    ],
)
async def test_why_nothing_was_executed_is_told_by_name(
    params: ExecParams, error: type[Exception], reason: str, tty: bool
) -> None:
    """The reasons are those of a command without a sandbox; nothing is left of the sandbox."""
    async with private() as backend:
        values = {name: getattr(params, name) for name in params.__slots__}
        with pytest.raises(error) as caught:
            await backend.start(confined(ExecParams(**{**values, "tty": tty})))
        assert caught.value.details["reason"] == reason  # type: ignore[attr-defined]
        await nothing_is_left(backend)


async def test_a_folder_that_is_not_there(root: Path) -> None:
    """A missing root and a missing working directory are told, each by its name."""
    async with private() as backend:
        with pytest.raises(InvalidRequest) as caught:
            await backend.start(confined(shell("true"), root / "nosuch"))
        assert caught.value.details["reason"] == "root_not_found"
        intent = SandboxIntent("workspace-write", (os.fsencode(root),))
        with pytest.raises(WorkingDirectoryMissing):
            await backend.start(shell("true", sandbox=intent, cwd=os.fsencode(root / "nosuch")))
        assert not [process for process in backend.table if process.has_begun]


async def test_arg0_is_refused() -> None:
    """What a sandbox cannot give is refused by name."""
    async with private() as backend:
        with pytest.raises(InvalidRequest, match="arg0"):
            await backend.start(confined(words("sh", "-c", "true", arg0=b"-sh")))


@pytest.mark.parametrize("kind", ["pipe", "data"])
async def test_stdin_reaches_the_command(kind: str) -> None:
    """What is written arrives, and its end too."""
    async with private() as backend:
        more: dict[str, Any] = (
            {"stdin": "data", "stdin_data": b"abc"} if kind == "data" else {"stdin": "pipe"}
        )
        process = await backend.start(confined(shell("cat; echo end", **more)))
        if kind == "pipe":
            await process.write(b"abc", end=True)
        assert output_of(await all_events(process)) == b"abcend\n"


async def test_a_signal_reaches_the_command_and_not_its_wrapper() -> None:
    """The command handles it and lives on, as it would without a sandbox."""
    async with private() as backend:
        line = (
            "trap 'echo caught' INT; trap 'echo ended; exit 9' TERM; echo ready; while :; do sleep 0.02; done"
        )
        process = await backend.start(confined(shell(line)))
        await until_output(process, b"ready")
        await process.signal("INT")
        await until_output(process, b"caught")
        await process.signal("TERM")
        events = await all_events(process)
        assert b"ended" in output_of(events)
        assert end_of(events).exit_code == 9


async def test_terminate_lets_the_command_end_itself() -> None:
    """There is grace inside: handlers run, and children get the signal too."""
    async with private() as backend:
        child = "trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.02; done"
        line = f'sh -c "{child}" & trap "wait; exit 5" TERM; wait'
        process = await backend.start(confined(shell(line)))
        await until_output(process, b"ready")
        report = await process.terminate(grace=5.0)
        assert not report.survivors
        events = await all_events(process)
        assert b"child" in output_of(events)
        assert (end_of(events).cause, end_of(events).exit_code) == ("terminated", 5)
        await nothing_is_left(backend)


async def test_what_ignores_every_signal_is_killed() -> None:
    """Whoever has made sessions of his own and ignores TERM is gone after the grace."""
    async with private() as backend:
        line = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; echo ready; sleep 60' & sleep 60"
        process = await backend.start(confined(shell(line)))
        await until_output(process, b"ready")
        report = await process.terminate(grace=0.2)
        assert not report.survivors
        assert end_of(await all_events(process)).cause == "terminated"
        await nothing_is_left(backend)


async def test_a_time_limit_holds() -> None:
    """It ends the whole sandbox, and is the cause."""
    async with private() as backend:
        process = await backend.start(
            confined(shell("trap '' TERM; sleep 60 & sleep 60", timeout=0.3, timeout_grace=0.1))
        )
        assert end_of(await all_events(process)).cause == "timed_out"
        await nothing_is_left(backend)


async def test_a_job_outlives_its_command_as_without_a_sandbox_c66() -> None:
    """`exited` is told when the command is over, `closed` when the job that it left is, sandboxed or not."""
    async with private() as backend:
        kinds = []
        for params in (
            shell("(sleep 0.3; echo late) & echo main"),
            confined(shell("(sleep 0.3; echo late) & echo main")),
        ):
            process = await backend.start(params)
            events = await all_events(process)
            assert output_of(events) == b"main\nlate\n"
            kinds.append(kinds_of(events))
        assert kinds[0] == kinds[1] == ["started", "output", "exited", "output", "closed"]
        await nothing_is_left(backend)


async def test_a_job_that_was_left_can_be_ended_c66() -> None:
    """KILL leaves nothing, also when the command itself and its wrapper are gone."""
    async with private() as backend:
        process = await backend.start(confined(shell("sleep 60 & echo main")))
        await until_output(process, b"main")
        async with deadline(10):
            await process.wait("exited", 10)
        report = await process.terminate(grace=0.0)
        assert not report.survivors
        await nothing_is_left(backend)


@pytest.mark.parametrize("to_group", [False, True])
async def test_kill_of_the_wrapper_leaves_what_can_be_ended_c66(to_group: bool) -> None:
    """Somebody kills the wrapper: what is inside is confined still, and ends with the process."""
    async with private() as backend:
        process = await backend.start(confined(shell("echo ready; sleep 60 & wait")))
        await until_output(process, b"ready")
        pid = (await process.info()).pid
        assert pid is not None
        (os.killpg if to_group else os.kill)(pid, signal.SIGKILL)
        await process.wait("exited", 10)
        await process.terminate(grace=0.0)
        await nothing_is_left(backend)


async def test_closing_the_backend_ends_what_was_left() -> None:
    """A private backend leaves no job of a sandbox behind."""
    async with private() as backend:
        process = await backend.start(confined(shell("sleep 61 >/dev/null 2>&1 &")))
        await process.wait("exited", 10)
        below = descendants(backend.keeper.pid)
        assert below
    await asyncio.to_thread(wait_until, lambda: not any(map(is_alive, below)))


async def test_terminal_has_job_control_and_keys_reach_the_command_alone() -> None:
    """The interrupt key signals the command, which lives on; its wrapper does not notice (sandbox.md 0.7)."""
    async with private() as backend:
        code = "import signal, time; signal.signal(2, lambda *_: print('caught')); print('ready')"
        code += "\nwhile True: time.sleep(0.01)"
        process = await backend.start(confined(python(code, tty=True, stdin="pipe")))
        await until_output(process, b"ready")
        await process.write(b"\x03")
        await until_output(process, b"caught")
        await process.write(b"\x1c")  # quit
        assert end_of(await all_events(process)).signal == signal.SIGQUIT


async def test_terminal_of_a_shell() -> None:
    """An interactive shell stops and resumes jobs, and knows the size of its terminal."""
    async with private() as backend:
        params = words(
            "bash", "--norc", "--noprofile", "-i", tty=True, stdin="pipe", tty_size=TtySize(33, 101)
        )
        process = await backend.start(confined(params))
        await process.write(b"PS1=; stty size; tty\nsh -c 'echo fore''ground; exec sleep 60'\n")
        events = await until_output(process, b"foreground")
        assert b"33 101" in output_of(events)
        assert b"/dev/console" in output_of(events)
        await process.write(b"\x1a")
        await until_output(process, b"Stopped")
        await process.resize(20, 70)
        await process.write(b"kill %1; stty size; exit 3\n")
        events = await all_events(process)
        assert b"20 70" in output_of(events)
        assert end_of(events).exit_code == 3


async def test_a_denial_is_told_with_its_evidence(root: Path, outside: Path) -> None:
    """The cause says that it was the sandbox, and what was seen."""
    async with private() as backend:
        process = await backend.start(confined(shell(f"touch {outside}/nosuch"), root))
        result = end_of(await all_events(process))
        assert (result.cause, result.confidence) == ("sandbox_denied", "high")
        assert f"{outside}/nosuch" in result.evidence[0]
        process = await backend.start(confined(shell("cat nosuch"), root))
        assert end_of(await all_events(process)).cause == "exited"


async def test_limits_are_told_and_hold() -> None:
    """What is enforced is said, and the end says which limit it was."""
    async with private() as backend:
        limits = Limits(memory=150 << 20, file_size=1 << 20, descriptors=64)
        params = confined(python("bytearray(400 << 20)", limits=limits))
        process = await backend.start(params)
        applied = (await process.info()).sandbox
        assert applied is not None
        assert set(applied["limits_enforced"]) == {"memory", "file_size", "descriptors"}
        result = end_of(await all_events(process))
        assert result.cause == "oom" or b"MemoryError" in output_of(await all_events(process))


@pytest.mark.parametrize("code", [0, 3])
async def test_forks_that_were_refused_are_told(code: int) -> None:
    """As evidence, whatever the command made of it, where the kernel counts them."""
    lines = f"""
import os, time
try:
    for _ in range(9):
        if os.fork() == 0:
            time.sleep(0.2)
            os._exit(0)
except OSError:
    os._exit({code})
"""
    async with private() as backend:
        process = await backend.start(confined(python(lines, limits=Limits(processes=3))))
        result = end_of(await all_events(process))
        assert (result.exit_code, result.cause) == (code, "exited")
        if "pids" in backend.confiner.cells.cgroups.controllers:
            assert result.evidence == ("limit processes=3 (limits)",)


async def test_what_is_used_in_a_sandbox_is_the_commands(root: Path) -> None:
    """Bubblewrap's own processes are not counted; where memory is limited, files in /tmp count as memory."""
    line = "head -c 20000000 /dev/zero > /tmp/big; sleep 60 & echo up; wait"
    async with private() as backend:
        process = await backend.start(confined(shell(line, limits=Limits(memory=100 << 20)), root))
        await until_output(process, b"up")
        usage = (await process.info(usage=True)).usage
        assert usage is not None
        assert usage.processes == 2
        if "memory" in backend.confiner.cells.cgroups.controllers:
            assert 20_000_000 < usage.memory_bytes < 100 << 20


async def test_memory_that_is_too_little_for_the_sandbox_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the wrapper itself meets the limit, the limit is blamed."""
    monkeypatch.setitem(LEAST_LIMITS, "memory", 0)
    async with private() as backend:
        if "memory" not in backend.confiner.cells.cgroups.controllers:
            pytest.skip("no control group limits memory here")
        with pytest.raises(InvalidRequest, match="memory=65536 is too little for the sandbox itself"):
            await backend.start(confined(shell("true", limits=Limits(memory=65536))))
        await nothing_is_left(backend)


@pytest.mark.parametrize("tty", [False, True])
async def test_no_variables_are_none(root: Path, tty: bool) -> None:
    """Whoever asks for no variables gets none, but for the one that bubblewrap sets."""
    async with private() as backend:
        words = (b"/usr/bin/env",)
        plain = ExecParams(argv=words, env={}, tty=tty)
        process = await backend.start(confined(plain, root))
        assert output_of(await all_events(process)).split() == [b"PWD=" + os.fsencode(root)]
        explained = await backend.explain(confined(plain, root))
        assert (explained["env"], explained["env_changes"]) == ([b"PWD"], {})


async def test_variables_are_as_they_are_explained(root: Path) -> None:
    """Names that are told are those that a command finds; what the client sets stays."""
    env = {b"LC_ALL": b"de_DE.UTF-8", b"TMPDIR": b"/x", b"A": b"1"}
    policy = EnvPolicy(inherit="all", set={b"LC_TIME": b"C"})
    async with private() as backend:
        params = ExecParams(argv=(b"/usr/bin/env",), env=env, env_policy=policy)
        wanted = confined(params, root, network="proxy")
        explained = await backend.explain(wanted)
        process = await backend.start(wanted)
        found = dict(line.split(b"=", 1) for line in output_of(await all_events(process)).splitlines())
        assert sorted(found) == explained["env"]
        changes = explained["env_changes"]
        assert {name: found.get(name) for name in changes} == changes
        assert (changes[b"LC_ALL"], changes[b"LANG"], changes[b"TMPDIR"]) == (None, b"de_DE.UTF-8", b"/tmp")
        assert (found[b"LC_TIME"], found[b"A"]) == (b"C", b"1")


@pytest.mark.skipif(shutil.which("perl", path="/usr/bin") is None, reason="needs perl")
@pytest.mark.parametrize("tty", [False, True])
async def test_abstract_sockets_of_the_host_escape_48(tty: bool) -> None:
    """In the host's network a command does not reach them where the kernel can hold them back; it is told."""
    code = r"socket(S, 1, 1, 0); connect(S, pack('Sa*', 1, qq(\0).shift)) or $! and print $!+0, qq(\n)"
    async with private() as backend:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(b"\0execzmq-%d" % os.getpid())
            server.listen()
            name = server.getsockname()[1:]
            params = confined(words("/usr/bin/perl", "-e", code, name, tty=tty), network="host")
            process = await backend.start(params)
            said = output_of(await all_events(process)).split()
        applied = (await process.info()).sandbox
        assert applied is not None
        is_held_back = landlock.can_scope()
        assert said == ([b"%d" % errno.EPERM] if is_held_back else [])
        assert applied["network"]["abstract_sockets"] == ("own" if is_held_back else "host")


async def test_a_sandbox_goes_on_under_the_next_server(folder: Path, root: Path) -> None:
    """Output, stdin, signals, exact status and the verdict are as if nothing had happened."""
    line = "echo one; read x; echo got $x; trap 'exit 6' TERM; echo two; while :; do sleep 0.02; done"
    async with life(folder) as backend:
        process = await backend.start(confined(shell(line, stdin="pipe", process_id="s"), root))
        await until_output(process, b"one")
    async with last_life(folder) as backend:
        process = await backend.attach("s")
        await process.write(b"abc\n")
        await until_output(process, b"two")
        assert (await process.info()).sandbox is not None
        await process.signal("TERM")
        events = await all_events(process)
        assert output_of(events, "stdout") == b"one\ngot abc\ntwo\n"
        result = end_of(events)
        assert result.exit_code == 6
        assert result.cause == "exited"  # a client has sent the signal, but the exit code is the command's
        await nothing_is_left(backend)


async def test_a_sandbox_that_ended_between_two_servers(folder: Path, root: Path) -> None:
    """Its exact status and the verdict are known."""
    async with life(folder) as backend:
        process = await backend.start(
            confined(shell("echo one; sleep 0.3; kill -9 $$", process_id="s"), root)
        )
        await until_output(process, b"one")
        pid = (await process.info()).pid
    assert pid is not None
    await asyncio.to_thread(wait_until, lambda: _has_ended(pid))
    async with last_life(folder) as backend:
        process = await backend.attach("s")
        result = end_of(await all_events(process))
        assert result.signal == signal.SIGKILL


@pytest.mark.parametrize("keeper_ends", [False, True])
async def test_the_verdict_on_what_ended_between_two_servers(
    folder: Path, root: Path, outside: Path, keeper_ends: bool
) -> None:
    """The next server judges as the last would have, also where the keeper has ended too."""
    line = f"echo one; until [ -e go ]; do sleep 0.01; done; touch {outside}/nosuch"
    other = confined(shell("sleep 60", process_id="other"))
    async with life(folder) as backend:
        keeper = backend.keeper.pid
        process = await backend.start(confined(shell(line, process_id="s"), root))
        await until_output(process, b"one")
        if not keeper_ends:
            await backend.start(other)
        pid = (await process.info()).pid
    assert pid is not None
    (root / "go").touch()
    gone = keeper if keeper_ends else pid
    await asyncio.to_thread(wait_until, lambda: not is_alive(gone))
    async with last_life(folder) as backend:
        result = end_of(await all_events(await backend.attach("s")))
        assert (result.exit_code, result.cause, result.confidence) == (1, "sandbox_denied", "high")


async def test_a_job_that_was_left_goes_on_under_the_next_server_c66(folder: Path, root: Path) -> None:
    """The end of the command is told once, and `closed` when the job has ended."""
    line = "(until [ -e go ]; do sleep 0.01; done; echo late) & echo main; exit 4"
    async with life(folder) as backend:
        process = await backend.start(confined(shell(line, process_id="s"), root))
        await process.wait("exited", 10)
    async with life(folder) as backend:
        assert (await (await backend.attach("s")).info()).state == "exited"
    (root / "go").touch()
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("s"))
        assert output_of(events) == b"main\nlate\n"
        assert kinds_of(events) == ["started", "output", "exited", "output", "closed"]
        assert end_of(events).exit_code == 4
        await nothing_is_left(backend)


@pytest.mark.parametrize("keeper_ends", [False, True])
async def test_a_limit_that_struck_between_two_servers(folder: Path, root: Path, keeper_ends: bool) -> None:
    """What the control group has counted meanwhile is known; then it goes."""
    line = "echo one; until [ -e go ]; do sleep 0.01; done; head -c 400M /dev/zero | tail -n 1 >/dev/null"
    params = confined(shell(f"{line}; exit 9", process_id="s", limits=Limits(memory=100 << 20)), root)
    async with life(folder) as backend:
        keeper = backend.keeper.pid
        process = await backend.start(params)
        await until_output(process, b"one")
        if not keeper_ends:
            await backend.start(confined(shell("sleep 60", process_id="other")))
        has_group = bool(backend.confiner.cells.cgroups.controllers & {"memory"})
        pid = (await process.info()).pid
    assert pid is not None
    (root / "go").touch()
    gone = keeper if keeper_ends else pid
    await asyncio.to_thread(wait_until, lambda: not is_alive(gone), 10.0)
    async with last_life(folder) as backend:
        result = end_of(await all_events(await backend.attach("s")))
        assert result.cause == ("oom" if has_group else "exited")
    assert not groups_of(folder)


async def test_a_group_that_a_killed_server_has_left_goes_at_the_next_start(folder: Path) -> None:
    """Also where nothing else is left of its sandboxes, and the next server confines nothing."""
    limits = Limits(processes=20)
    async with life(folder) as backend:
        process = await backend.start(confined(shell("true", limits=limits)))
        assert end_of(await all_events(process)).exit_code == 0
    found = Cgroups.find(str(folder))
    if not found.controllers:
        pytest.skip(f"not on this host: {found.reason}")
    found.create("left", limits)
    assert groups_of(folder)
    async with last_life(folder):
        assert not groups_of(folder)


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between two looks, or in the middle of one
        return True


async def test_the_same_start_again_is_answered_when_its_root_is_gone(root: Path) -> None:
    """A client that asks again after a lost connection is told of what runs, whatever became of the root."""
    async with private() as backend:
        params = confined(shell("sleep 60", process_id="p"), root)
        process = await backend.start(params)
        await asyncio.to_thread(root.rename, root.with_name("elsewhere"))
        again = await backend.start(params)
        assert (again.is_repeat, again.instance) == (True, process.instance)
        with pytest.raises(InvalidRequest):
            await backend.explain(params)
        await process.terminate(0.0)


async def test_no_thread_is_left(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start says so by name, and the end of what runs is told all the same."""

    def refuse(work: object, arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    async with private() as backend:
        process = await backend.start(confined(shell("read x; exit 3", stdin="pipe"), root))
        with monkeypatch.context() as patched:
            patched.setattr("execzmq.aside._thread.start_new_thread", refuse)
            with pytest.raises(SpawnFailed) as caught:
                await backend.start(confined(shell("true"), root))
            assert caught.value.details["reason"] == "try_again"
            await process.write(b"\n")
            assert end_of(await all_events(process)).exit_code == 3


async def test_no_descriptor_is_left_for_the_first_process(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that cannot watch its sandbox says why, and leaves nothing of it at the gate."""

    def refuse(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with private() as backend:
        with monkeypatch.context() as patched:
            patched.setattr("execzmq.backends.entering.os.pidfd_open", refuse)
            with pytest.raises(SpawnFailed) as caught:
                await backend.start(confined(shell("true"), root))
        assert caught.value.details["reason"] == "too_many_descriptors"
        await nothing_is_left(backend)


async def test_no_descriptor_is_left_to_write_a_sandbox_down(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no trouble of the disk, and is not told as one."""
    open_file = os.open

    def refuse(path: Any, *others: Any, **more: Any) -> int:
        if os.fsencode(path).endswith(b"/placeholders"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_file(path, *others, **more)

    async with private() as backend:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refuse)
            with pytest.raises(SpawnFailed, match="ulimit -n") as caught:
                await backend.start(confined(shell("true"), root))
        assert caught.value.details["reason"] == "too_many_descriptors"
        assert end_of(await all_events(await backend.start(confined(shell("true"), root)))).exit_code == 0


@pytest.mark.parametrize("protect", ["all", "hooks-config"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
async def test_a_full_disk_of_the_root(root: Path, config: Callable[[str], None], protect: str) -> None:
    """It is named, and what could be made before it was full goes again."""
    config(f"[p]\nextends = 'workspace-write'\nprotect_git = '{protect}'\n")
    with small_disk(root, "size=16k,nr_inodes=8"):
        (root / ".git").mkdir()
        (root / ".git/config").touch()
        (root / ".git/hooks").mkdir()
        with contextlib.suppress(OSError), (root / "x").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        before = names_in(root)
        async with private() as backend:
            with pytest.raises((SandboxUnavailable, SpawnFailed), match="No space left on device") as caught:
                await backend.start(confined(shell("true"), root, profile="p"))
            assert str(root) in str(caught.value)
            await asyncio.to_thread(wait_until, lambda: names_in(root) == before)


def names_in(folder: Path) -> list[Path]:
    """Return all that is below a folder, from which a server may remove something meanwhile."""
    return sorted(Path(top, name) for top, *names in os.walk(folder) for name in itertools.chain(*names))


@contextlib.contextmanager
def small_disk(folder: Path, options: str) -> Iterator[None]:
    """Mount a disk there meanwhile."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("read", ["host", "minimal"])
async def test_a_root_that_is_moved_while_its_command_runs(
    root: Path, config: Callable[[str], None], read: str
) -> None:
    """Nothing is left in it, wherever it is then; what keeps names missing goes along."""
    config(f"[p]\nextends = 'workspace-write'\nreadable = {[read, *map(os.fsdecode, SEEN)]}\n")
    line = "echo ready; read x; ! mkdir .git .git/x .codex"
    async with private() as backend:
        process = await backend.start(confined(shell(line, stdin="pipe"), root, profile="p"))
        await until_output(process, b"ready")
        moved = root.with_name("moved")
        os.rename(root, moved)
        assert os.listdir(moved)
        await process.write(b"\n", end=True)
        assert end_of(await all_events(process)).exit_code == 0
        await asyncio.to_thread(wait_until, lambda: not os.listdir(moved))


async def test_streams_that_cannot_be_taken_leave_no_sandbox(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its descriptors nor its control group, nor what it has put into its root."""

    def refuse(_backend: object, _process: object, spawned: SpawnedProcess) -> None:
        spawned.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with private() as backend:
        params = confined(shell("sleep 60", limits=Limits(processes=20)), root)
        assert end_of(await all_events(await backend.start(confined(shell("true"), root)))).exit_code == 0
        await asyncio.to_thread(wait_until, lambda: not os.listdir(root))
        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patched:
            patched.setattr(starting, "connect_streams", refuse)
            with pytest.raises(SpawnFailed, match="Too many open files"):
                await backend.start(params)
        await nothing_is_left(backend)
        await asyncio.to_thread(
            wait_until,
            lambda: (
                not groups_of(backend.folder)
                and not os.listdir(root)
                and len(os.listdir("/proc/self/fd")) <= before
            ),
        )


async def test_a_start_that_meets_the_end_of_its_backend_holds_nothing(root: Path) -> None:
    """What was prepared is closed: its lock would keep every server of this user from tidying up."""
    async with private() as backend:
        params = confined(shell("true"), root)
        preparing = backend.prepare(params)
        assert preparing is not None
        prepared = await preparing
    with pytest.raises(InvalidState):
        backend.begin(params, "s", prepared)
    assert prepared.looked.starting == -1


async def test_what_comes_together_with_a_cancellation_is_dropped() -> None:
    """The result of work that nobody waits for any more is given back, also where it has come already."""
    dropped: list[int] = []
    gate = threading.Event()

    def work() -> int:
        gate.wait()
        return 7

    task = asyncio.ensure_future(aside(work, 5.0, dropped.append))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(_open_and_cancel, gate, task)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(wait_until, lambda: dropped == [7])


def _open_and_cancel(gate: threading.Event, task: "asyncio.Future[int]") -> None:
    """Let the result come to the loop, which is held up meanwhile, and cancel right after it."""
    gate.set()
    loop = asyncio.get_running_loop()
    wait_until(lambda: loop._ready)  # type: ignore[attr-defined]  # the result
    loop.call_soon(task.cancel)


async def test_what_is_refused_when_the_wrapper_is_loaded_leaves_nothing(root: Path) -> None:
    """More variables than bubblewrap takes, found while it waits for them: nothing was begun."""
    async with private() as backend:
        many = {b"V%d" % number: b"" for number in range(5000)}
        params = dataclasses.replace(confined(shell("true"), root), env=many, env_policy=EnvPolicy("all"))
        for _ in range(3):
            with pytest.raises(LimitExceeded):
                await backend.start(params)
        assert await backend.list_processes() == []
        await nothing_is_left(backend)
        await (await backend.start(confined(shell("true"), root))).wait("closed", 20.0)


async def test_arguments_that_take_long_to_read(root: Path) -> None:
    """A megabyte of variables is told while the wrapper reads it."""
    async with private() as backend:
        large = {b"PATH": os.environb[b"PATH"]} | {b"V%d" % number: b"x" * 100_000 for number in range(10)}
        params = dataclasses.replace(
            confined(shell("env | wc -c"), root), env=large, env_policy=EnvPolicy("all")
        )
        said = output_of(await all_events(await backend.start(params)))
        assert int(said) > 1_000_000


def _replace_by_link(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # what a sandbox has left there
        path.rmdir()
    path.symlink_to("elsewhere")


async def test_what_changes_between_two_starts_is_seen(root: Path) -> None:
    """The second one expects what the first has found, and finds otherwise before anything is mounted."""
    async with private() as backend:
        line = "mkdir .git/hooks 2>/dev/null && echo made || echo kept"
        params = confined(shell(line), root)

        async def said() -> bytes:
            return output_of(await all_events(await backend.start(params)))

        assert [await said(), await said()] == [b"kept\n", b"kept\n"]
        await asyncio.to_thread(_replace_by_link, root / ".codex")
        for _ in range(2):
            with pytest.raises(InvalidRequest) as caught:
                await backend.start(params)
            assert caught.value.details["reason"] == "protected_is_link"
        await asyncio.to_thread((root / ".codex").unlink)
        assert await said() == b"kept\n"
        await asyncio.to_thread(root.rename, root.with_name("other"))
        with pytest.raises(InvalidRequest) as caught:
            await backend.start(params)
        assert caught.value.details["reason"] == "root_not_found"
        await asyncio.to_thread(root.mkdir)
        assert await said() == b"kept\n"
        await nothing_is_left(backend)
