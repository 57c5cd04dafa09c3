"""Attempts that need a start of their own: by limits, by what a client says, by what is killed meanwhile."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from execzmq.errors import CommandNotFound, ExecZMQError, InvalidRequest
from execzmq.types.params import EnvPolicy, ExecParams, Limits, SandboxIntent
from tests.commands import all_events, shell, until_output
from tests.escapes.attempts import HOST, MINIMAL, PLAIN, Attempt
from tests.escapes.making import PYTHON, Home, at_home, made, params, server_at
from tests.escapes.site import site
from tests.support import wait_until

pytestmark = pytest.mark.slow

BASES = pytest.mark.parametrize("mode", [HOST, MINIMAL])
TERMINALS = pytest.mark.parametrize("tty", [False, True], ids=["pipe", "pty"])

LIMITED = (
    Attempt(
        "50",
        "fork bomb",
        """#python
pids = []
try:
    for _ in range(250):
        pids.append(os.fork() or signal.pause())
except OSError as error:
    print("stopped", error)
else:
    print("through", len(pids))
for pid in pids: os.kill(pid, 9)
""",
        lambda r: r.says("50"),
    ),
    Attempt(
        "56",
        "use up descriptors",
        "#python\ntell('5000', lambda: len([os.dup(1) for _ in range(5000)]))",
        lambda r: r.says("56"),
    ),
    Attempt(
        "N2",
        "a file that is too large",
        "#python\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "tell('big', lambda: os.truncate(os.open(WS + '/big', os.O_CREAT | os.O_RDWR), 2_000_000))",
        lambda r: (r.site.ws / "big").stat().st_size > 1_000_000,
    ),
    Attempt(
        "N3",
        "fill the folders in memory beyond their size",
        "for d in /tmp /var/tmp /dev/shm; do for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
        "head -c 999999 /dev/zero > $d/$n || break; done; [ -s $d/20 ] && echo through; rm $d/*; done",
        lambda r: r.says("N3"),
    ),
)
LIMIT_OF = {"50": "processes", "56": "descriptors", "N2": "file_size"}


@BASES
@TERMINALS
def test_limits_hold_50_56(home: Home, mode: str, tty: bool) -> None:
    """A fork bomb, descriptors and large files end at their limits, where the reply says that they hold."""
    limits = Limits(processes=64, descriptors=1024, file_size=1_000_000)
    with made(home, LIMITED, mode, tty, "none", limits=limits) as run:
        for attempt in LIMITED:
            name = LIMIT_OF.get(attempt.number)
            is_free = name is not None and name not in run.applied["limits_enforced"]
            assert attempt.through(run) == is_free, (attempt.number, run.answers[attempt.number])


@BASES
@TERMINALS
def test_memory_hog_51(home: Home, mode: str, tty: bool) -> None:
    """What takes more memory than it may is ended, or told so by the kernel."""
    with site() as target:
        code = "kept = bytearray(400 << 20); print('through')"
        limits = Limits(memory=160 << 20)
        ended = home.run(
            params(target, home.wish(target, mode, "none"), *PYTHON, "-c", code, tty=tty, limits=limits)
        )
    assert "memory" in ended.applied["limits_enforced"]
    assert b"through" not in ended.output
    assert ended.result.cause == "oom" or b"MemoryError" in ended.output


@BASES
@TERMINALS
def test_nothing_outlives_the_time_limit_39(home: Home, mode: str, tty: bool) -> None:
    """What ignores all signals and has left its session is gone with the rest when the time is over."""
    with site() as target:
        line = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; echo >> ran; sleep 6007' & sleep 6008"
        wanted = params(target, home.wish(target, mode), "sh", "-c", line, tty=tty)
        ended = home.run(_with(wanted, timeout=0.7, timeout_grace=0.1))
        assert ended.result.cause == "timed_out"
        assert (target.ws / "ran").exists()
        assert not _running(target.ws)


def _running(folder: Path) -> list[int]:
    """Return the processes whose working directory is in a folder."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [pid for pid in pids if _folder_of(pid).startswith(str(folder))]


def _folder_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _with(wanted: ExecParams, **more: Any) -> ExecParams:
    return ExecParams(**{**{name: getattr(wanted, name) for name in wanted.__slots__}, **more})


@pytest.mark.parametrize("mode", [HOST, MINIMAL, PLAIN])
@TERMINALS
def test_variables_reach_the_command_alone_57_65(home: Home, mode: str, tty: bool) -> None:
    """The loader's variables, which a client may set, do nothing to what makes the sandbox."""
    with site() as target:
        chosen = {
            b"LD_PRELOAD": os.fsencode(target.ws / "evil.so"),
            b"LD_DEBUG": b"files",
            b"LD_DEBUG_OUTPUT": os.fsencode(target.out / "ld"),
        }
        policy = EnvPolicy(inherit="profile", set=chosen)
        wish = home.wish(target, mode)
        home.run(params(target, wish, "sh", "-c", "echo ran", tty=tty, env_policy=policy))
        assert any(target.out.glob("ld*")) == (mode == PLAIN)


@BASES
@TERMINALS
def test_command_that_looks_like_an_option_63(home: Home, mode: str, tty: bool) -> None:
    """It is a program that is not there, and no order to bubblewrap."""
    with site() as target:
        argv = ("--bind", "/", "/", "sh", "-c", f"echo x > {target.out}/w63")
        with pytest.raises(CommandNotFound):
            home.run(params(target, home.wish(target, mode), *argv, tty=tty))
        assert not (target.out / "w63").exists()


@pytest.mark.parametrize("field", ["root", "argv", "cwd", "env", "name"])
def test_nul_is_refused_68(home: Home, field: str) -> None:
    """A NUL, which would begin another option for bubblewrap, is refused wherever it stands."""
    with site() as target:
        evil = b"\0--bind\0/\0/"
        wanted = params(target, home.wish(target, HOST), "true")
        own = os.fsencode(target.ws)
        changes: dict[str, dict[str, Any]] = {
            "root": {"sandbox": SandboxIntent("open", (own + evil,))},
            "argv": {"argv": (b"true", evil)},
            "cwd": {"cwd": own + evil},
            "env": {"env_policy": EnvPolicy(inherit="profile", set={b"X": evil})},
            "name": {"env_policy": EnvPolicy(inherit="profile", set={b"X" + evil: b""})},
        }
        with pytest.raises(InvalidRequest):
            home.run(_with(wanted, **changes[field]))


SWAP = """
import os, time
os.write(1, b"ready")
while True:
    os.rename("r", "t"); os.symlink("../out", "r"); os.unlink("r"); os.rename("t", "r")
    time.sleep(0.002)
"""


def test_root_is_swapped_by_another_sandbox_69_81() -> None:
    """One command swaps a folder for a link, others start with it as their root: no write goes astray."""
    with at_home() as home:
        (home.site.ws / "r").mkdir()
        started = asyncio.run(_start_while_swapped(home))
        assert not (home.site.out / "w69").exists()
        assert started > 0


async def _start_while_swapped(home: Home) -> int:
    ws = os.fsencode(home.site.ws)
    started = 0
    async with home.server.backend() as backend:
        wish = SandboxIntent("bounded", (ws,))
        swapping = await backend.start(params(home.site, wish, *PYTHON, "-c", SWAP))
        await until_output(swapping, b"ready")
        for _ in range(30):
            inner = shell("echo x > w69", cwd=ws + b"/r", sandbox=SandboxIntent("bounded", (ws + b"/r",)))
            try:
                await all_events(await backend.start(inner))
                started += 1
            except ExecZMQError:
                continue
        await swapping.terminate(grace=0.0)
    return started


@BASES
@TERMINALS
def test_nothing_is_left_in_the_workspace_71(home: Home, mode: str, tty: bool) -> None:
    """The empty folders that cover protected names are gone when the command has ended."""
    with site() as target:
        before = target.files()
        home.run(params(target, home.wish(target, mode), "sh", "-c", "ls -A; touch mine", tty=tty))
        wait_until(lambda: target.files() == before | {"mine"})


LATER = (
    "echo ready; while [ ! -e go ]; do sleep 0.02; done; "
    "echo x > {out}/w73; cat {connection} > got; echo x > .git/hooks/x; echo > .codex/x; echo > done"
)


@BASES
@TERMINALS
@pytest.mark.parametrize("victim", ["server", "wrapper"])
def test_confined_whatever_is_killed_73(mode: str, tty: bool, victim: str) -> None:
    """When the server or the wrapper is killed, what is inside stays confined until it is ended."""
    with at_home() as home:
        target, connection = home.site, home.server.state / "connection.json"
        line = LATER.format(out=target.out, connection=connection)
        wanted = params(target, home.wish(target, mode), "sh", "-c", line, tty=tty)
        asyncio.run(_kill_meanwhile(home, wanted, victim))
        (target.ws / "go").touch()
        wait_until((target.ws / "done").exists)
        assert not (target.out / "w73").exists()
        assert (target.ws / "got").read_bytes() == b""
        assert not (target.ws / ".git/hooks/x").exists()
        assert not (target.ws / ".codex/x").exists()
        _end(home)
        wait_until(lambda: not _running(target.ws))


async def _kill_meanwhile(home: Home, wanted: ExecParams, victim: str) -> None:
    async with home.server.backend() as backend:
        process = await backend.start(wanted)
        await until_output(process, b"ready")
        pid = (await process.info()).pid
        assert pid is not None
        if victim == "wrapper":
            os.kill(pid, signal.SIGKILL)
            await process.wait("exited", 10.0)
    if victim == "server":
        home.server.kill()


def _end(home: Home) -> None:
    """End the server, or the one that follows it, with all that runs."""
    if home.server.process.poll() is not None:
        server_at(home.site).close()
    else:
        home.server.close()
