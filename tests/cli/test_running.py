"""`run` and `start`: bytes, exit statuses, signals, stdin, and what is said besides."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from execzmq import connection
from tests.cli.shell import EXECZMQ, environ, execzmq, read_until, running
from tests.disk import fill_disk
from tests.factories import open_server
from tests.support import child, deadline

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]

# Names each signal that it gets, and ends at KILL only.
STUBBORN = """
import os, signal
def say(signo, frame): os.write(1, signal.Signals(signo).name.encode() + b"\\n")
for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"): signal.signal(getattr(signal, "SIG" + name), say)
os.write(1, b"ready\\n")
while True: signal.pause()
"""


def test_streams_and_status_pass_through() -> None:
    """stdout and stderr are the command's bytes and nothing else; the status is its own."""
    done = execzmq("run", "--", "sh", "-c", r"printf 'a\0\377'; printf 'e' >&2; exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"a\0\xff", b"e")


def test_statuses() -> None:
    """What the command did, what the shell's conventions say of it, and what failed here."""
    expected = {
        ("--", "no-such-command"): 127,
        ("--", "/etc/passwd"): 126,
        ("--cwd", "/no/such/folder", "--", "true"): 125,
        ("--no-such-option", "true"): 125,
        (): 125,
        ("--on", "nobody", "--", "true"): 125,
        ("-it", "--", "true"): 125,
        ("--", "sh", "-c", "kill -KILL $$"): 137,
        ("--", "sh", "-c", "exit 124"): 124,
        ("--timeout", "0.2", "--", "sleep", "60"): 124,
    }
    for words, status in expected.items():
        done = execzmq("run", *words)
        assert done.returncode == status, words
        assert done.stdout == b""
        is_commands_own = status == 137 or "exit 124" in words
        assert done.stderr.count(b"\n") == (0 if is_commands_own else 1), done.stderr
        assert is_commands_own or done.stderr.startswith(b"execzmq: ")


def test_the_same_start_again_is_said_to_be_a_repeat() -> None:
    """It shows what is there; nobody may take that for a new run."""
    first = execzmq("run", "--id", "nightly", "--", "sh", "-c", "echo $$")
    again = execzmq("run", "--id", "nightly", "--", "sh", "-c", "echo $$")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert b"nothing is started now" in again.stderr
    assert first.stderr == b""
    execzmq("forget", "nightly")
    assert execzmq("run", "--id", "nightly", "--", "sh", "-c", "echo $$").stdout != first.stdout


def test_a_run_whose_server_is_lost_says_how_its_command_is_found() -> None:
    """The command goes on, and is found again under the id that is named."""
    with running("run", "--", "sh", "-c", "echo ready; exec sleep 1000") as run:
        assert run.stdout is not None
        assert run.stderr is not None
        read_until(run.stdout.fileno(), b"ready")
        os.kill(connection.load(connection.find("default")).pid, signal.SIGKILL)
        assert run.wait(deadline(20).left()) == 125
        told = run.stderr.read().decode()
    (found,) = re.findall("`execzmq attach ([^`]+)`", told)
    assert "its commands go on" in told
    assert execzmq("run", "--", "true").returncode == 0
    assert execzmq("kill", found).returncode == 0


def test_large_output_is_exact_c22(tmp_path: Path) -> None:
    """Many megabytes arrive whole, in a file and in a pipe, also where the reader is slow."""
    script = "head -c 30000000 /dev/urandom | tee copy"
    with open(tmp_path / "got", "wb") as got:
        assert (
            execzmq(
                "run", "--", "sh", "-c", script, cwd=tmp_path, stdout=got, capture_output=False
            ).returncode
            == 0
        )
    assert (tmp_path / "got").read_bytes() == (tmp_path / "copy").read_bytes()
    done = execzmq("run", "--", "cat", "copy", cwd=tmp_path)
    assert done.stdout == (tmp_path / "copy").read_bytes()


def test_closed_reader_ends_the_command_quietly() -> None:
    """As `yes | head` expects: the command ends, nothing is said, and the status tells of SIGPIPE."""
    line = f"{' '.join(EXECZMQ)} run -- yes | head -n 2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=deadline(20).left(), check=True)
    assert (done.stdout, done.stderr) == (b"y\ny\n141\n", b"")
    assert json.loads(execzmq("ps", "--json").stdout) == []


def test_stdin_is_empty_by_default_c39() -> None:
    """Without `-i` the command reads nothing; where something waits there, one is told."""
    done = execzmq("run", "--", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = execzmq("run", "--", "cat", input=b"waiting")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"-i" in done.stderr


def test_stdin_passes_through(tmp_path: Path) -> None:
    """With `-i` pipes, files and nothing arrive whole, with their end."""
    data = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(data)
    assert execzmq("run", "-i", "--", "cat", input=data).stdout == data
    with open(tmp_path / "file", "rb") as file:
        assert execzmq("run", "-i", "--", "cat", stdin=file).stdout == data
    assert execzmq("run", "-i", "--", "cat").stdout == b""
    done = execzmq("run", "-i", "--", "head", "-c", "3", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data[:3], b"")


def test_lines_are_passed_on_as_they_come() -> None:
    """A command answers each line before the next is written."""
    with running("run", "-i", "--", "cat", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"one\n", b"two\n"):
            os.write(process.stdin.fileno(), line)
            assert read_until(process.stdout.fileno(), b"\n") == line
        process.stdin.close()
        assert process.wait(deadline(20).left()) == 0


async def test_time_limit_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no room to tell of the end holds nobody up beyond the time limit."""
    code = "from execzmq.client import limit; limit.NET = 0.2; from execzmq.cli.main import main; main()"
    command = ("run", "--on", "t", "--id", "p", "--timeout", "1.5", "--", "sh", "-c", "echo up; sleep 1000")
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)  # an end that cannot be recorded
    async with open_server() as server:
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *command, env=environ(), stdout=subprocess.PIPE
        )
        assert run.stdout is not None
        assert await run.stdout.readline() == b"up\n"
        with monkeypatch.context() as patch:
            fill_disk(patch)
            assert await asyncio.wait_for(run.wait(), deadline(20).left()) == 124
            server.stop()


def test_interrupts_climb_the_ladder() -> None:
    """The first interrupt is INT, the second TERM, the third KILL; each is said, the output goes on."""
    with running("run", "--", *child(STUBBORN)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.fileno(), process.stderr.fileno()
        read_until(out, b"ready\n")
        for name in (b"SIGINT", b"SIGTERM"):
            process.send_signal(signal.SIGINT)
            assert read_until(out, b"\n") == name + b"\n"
            assert b"sent " + name in read_until(err, b"\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(deadline(20).left()) == 137
        assert b"kill" in read_until(err, b"\n")


def test_signals_pass_through() -> None:
    """TERM, HUP, QUIT, USR1 and USR2 reach the command, and do nothing else here."""
    with running("run", "--", *child(STUBBORN)) as process:
        assert process.stdout is not None
        out = process.stdout.fileno()
        read_until(out, b"ready\n")
        for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
            process.send_signal(signal.Signals[name])
            assert read_until(out, b"\n") == name.encode() + b"\n"
        assert execzmq("kill", *(p["process_id"] for p in _processes())).returncode == 0
        assert process.wait(deadline(20).left()) == 137


def _processes() -> list[dict[str, Any]]:
    found = json.loads(execzmq("ps", "--json").stdout)
    assert isinstance(found, list)
    return found


def test_background_job_does_not_hold_run() -> None:
    """A job that keeps the output open is named, and `run` ends a second after the command."""
    done = execzmq("run", "--", "sh", "-c", "sleep 60 & echo begun")
    assert (done.returncode, done.stdout) == (0, b"begun\n")
    assert b"sleep 60" in done.stderr


def test_folder_variables_and_umask_are_the_callers(tmp_path: Path) -> None:
    """The command has the caller's folder, variables and file mode mask; a policy and `--env` change them."""
    script = "pwd; umask; echo $COLOUR-$EXTRA"
    env = environ(COLOUR="blue")
    words = ("run", "-e", "EXTRA=x", "--", "sh", "-c", script)
    done = execzmq(*words, cwd=tmp_path, env=env, umask=0o027)
    assert done.stdout.decode() == f"{tmp_path}\n0027\nblue-x\n"
    done = execzmq("run", "--env-policy", "none", "-e", "EXTRA=y", "-e", "COLOUR", "--", "env", env=env)
    said = done.stdout.splitlines()
    assert {b"EXTRA=y", b"COLOUR=blue"} <= set(said)
    assert not any(line.startswith(b"HOME=") for line in said)


def test_start_prints_the_id() -> None:
    """`start` and `run --detach` print an id and leave the command running; `wait` has its status."""
    for words in (("start", "--id", "one"), ("run", "--detach", "--name", "two")):
        done = execzmq(*words, "--", "sh", "-c", "exit 3")
        assert done.returncode == 0
        assert execzmq("wait", done.stdout.decode().strip()).returncode == 3
    assert execzmq("wait", "one").returncode == 3
    assert execzmq("wait", "two").returncode == 3
    done = execzmq("start", "--id", "one", "--", "true")
    assert done.returncode == 125
    assert b"one" in done.stderr


def test_closed_standard_descriptors() -> None:
    """With stdin, stdout and stderr closed the command runs all the same."""
    line = f"{' '.join(EXECZMQ)} run -- sh -c 'echo x; exit 9' <&- >&- 2>&-"
    done = subprocess.run(["bash", "-c", line], timeout=deadline(20).left(), check=False)
    assert done.returncode == 9


def test_words_after_the_command_are_its_own() -> None:
    """Options after the command's name are the command's; no shell reads them."""
    done = execzmq("run", "printf", "%s|", "-i", "--help", "$HOME", "*", "")
    assert done.stdout == b"-i|--help|$HOME|*||"
