"""The commands that act on processes."""

import json

import pytest

from tests.cli.shell import execzmq, read_until, running
from tests.support import child

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]

SIZES = """
import os, signal
def say(*_): os.write(1, b"%d %d\\n" % (os.get_terminal_size().lines, os.get_terminal_size().columns))
signal.signal(signal.SIGWINCH, say)
os.write(1, b"ready\\n")
while True: signal.pause()
"""
DEAF = "import os, signal; signal.signal(15, signal.SIG_IGN); os.write(1, b'ready\\n'); signal.pause()"


def _start(*words: str) -> str:
    done = execzmq("start", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def test_wait_passes_the_status_on() -> None:
    """`wait` ends as the process ends, and gives up at its own limit without touching it."""
    process = _start("-i", "--", "sh", "-c", "read x; exit $x")
    done = execzmq("wait", "--timeout", "0.1", process)
    assert done.returncode == 124
    assert b"still running" in done.stderr
    execzmq("write", process, "9\n")
    assert execzmq("wait", process).returncode == 9


def test_write() -> None:
    """`write` passes an argument or stdin on as it is; `--end` closes the process's stdin."""
    process = _start("-i", "--", "cat")
    assert execzmq("write", process, "a").returncode == 0
    assert execzmq("write", process, input=b"b\0\xff").returncode == 0
    assert execzmq("write", "--end", process, "c").returncode == 0
    assert execzmq("logs", "-f", process).stdout == b"ab\0\xffc"
    done = execzmq("write", process, "d")
    assert done.returncode == 125
    assert done.stderr.startswith(b"execzmq: ")


def test_stop_and_kill() -> None:
    """`stop` sends TERM and after its grace KILL, `kill` KILL at once; both end what was started, too."""
    polite, deaf = _start("--", "sleep", "60"), _start("--", *child(DEAF))
    with running("logs", "-f", deaf) as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"ready")
        assert execzmq("stop", "--grace", "0.2", polite, deaf).returncode == 0
    assert execzmq("wait", polite).returncode == 143
    assert execzmq("wait", deaf).returncode == 137
    tree = _start("--", "sh", "-c", "sleep 60 & sleep 60")
    assert execzmq("kill", tree).returncode == 0
    assert execzmq("wait", tree).returncode == 137
    assert json.loads(execzmq("ps", "--json").stdout) == []


def test_signal() -> None:
    """`signal` takes names and numbers; one that is none, or too late, is an error in one line."""
    process = _start("--", "sleep", "60")
    assert execzmq("signal", process, "no-signal").returncode == 125
    assert execzmq("signal", process, "usr1").returncode == 0
    assert execzmq("wait", process).returncode == 128 + 10
    assert execzmq("signal", process, "9").returncode == 125
    process = _start("--", "sleep", "60")
    assert execzmq("signal", process, "SIGTERM").returncode == 0
    assert execzmq("wait", process).returncode == 143


def test_resize_c38() -> None:
    """`resize` sets the size of a terminal, and says that there is none where there is none."""
    process = _start("-t", "--", *child(SIZES))
    with running("logs", "-f", process) as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"ready")
        assert execzmq("resize", process, "40", "132").returncode == 0
        read_until(logs.stdout.fileno(), b"40 132")
    done = execzmq("resize", _start("--", "sleep", "60"), "40", "132")
    assert done.returncode == 125
    assert b"terminal" in done.stderr


def test_forget() -> None:
    """`forget` removes what has ended and refuses what has not; the others are forgotten all the same."""
    ended, living = _start("--", "true"), _start("--", "sleep", "60")
    execzmq("logs", "-f", ended)
    done = execzmq("forget", living, ended)
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    assert [p["process_id"] for p in json.loads(execzmq("ps", "-a", "--json").stdout)] == [living]
