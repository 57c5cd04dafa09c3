"""`ps` and `logs`."""

import json
import os
import select
import subprocess
import sys

import pytest

from tests.cli.shell import EXECZMQ, UserTerminal, environ, execzmq, read_until, running
from tests.support import deadline

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("servers")]


def test_ps_lists_the_living_and_all() -> None:
    """`ps` shows who lives, `--all` also who has ended and how; JSON has every field."""
    execzmq("start", "--id", "lives", "--name", "sleeper", "--", "sleep", "60")
    execzmq("run", "--id", "ended", "--", "sh", "-c", "echo 12345; exit 3")
    living = execzmq("ps").stdout.decode().splitlines()
    assert living[0].split() == ["ID", "NAME", "STATE", "PID", "AGE", "OUTPUT", "COMMAND"]
    assert len(living) == 2
    assert living[1].split()[:3] == ["lives", "sleeper", "running"]
    assert living[1].endswith("sleep 60")
    every = execzmq("ps", "--all").stdout.decode()
    assert "closed (3)" in every
    assert "6 B" in every
    found = {info["process_id"]: info for info in json.loads(execzmq("ps", "-a", "--json").stdout)}
    assert found["ended"]["result"]["exit_code"] == 3
    assert found["ended"]["output_bytes"]["stdout"] == 6
    assert found["lives"]["argv"] == ["sleep", "60"]


def test_ps_shows_how_processes_are_confined() -> None:
    """There is a column for it where one is; JSON has all that was applied."""
    execzmq("start", "--id", "free", "--", "sleep", "60")
    options = ("--id", "held", "--cwd", "/", "--sandbox", "read-only", "--network", "proxy")
    assert execzmq("start", *options, "--", "sleep", "60").returncode == 0
    head, *rows = (line.split() for line in execzmq("ps").stdout.decode().splitlines())
    assert head == ["ID", "NAME", "STATE", "PID", "AGE", "OUTPUT", "SANDBOX", "COMMAND"]
    assert {row[0]: row[-3] for row in rows} == {"free": "-", "held": "read-only+proxy"}
    found = {info["process_id"]: info["sandbox"] for info in json.loads(execzmq("ps", "--json").stdout)}
    assert found["free"] is None
    assert found["held"]["network"]["mode"] == "proxy"


def test_ps_measures_when_asked() -> None:
    """With `--usage` there are columns for what each tree uses; JSON has the numbers."""
    execzmq("start", "--id", "lives", "--", "sh", "-c", "sleep 60 & wait")
    execzmq("run", "--id", "ended", "--", "true")
    head, *rows = (line.split() for line in execzmq("ps", "-a", "-u").stdout.decode().splitlines())
    assert head[6:10] == ["CPU", "MEM", "PROCS", "COMMAND"]
    cells = {row[0]: row for row in rows}
    assert "0:00.0" in " ".join(cells["lives"])
    found = {one["process_id"]: one["usage"] for one in json.loads(execzmq("ps", "-au", "--json").stdout)}
    assert found["ended"] is None
    assert found["lives"]["processes"] == 2
    assert found["lives"]["memory_bytes"] > 0


def test_names_that_are_not_utf8() -> None:
    """A name that is not UTF-8 is listed as `\\xNN`, and moves no cursor."""
    subprocess.run([*EXECZMQ, "start", "--", "true", b"caf\xe9\x1b[2J"], capture_output=True, check=True)
    assert json.loads(execzmq("ps", "-a", "--json").stdout)[0]["argv"] == ["true", "caf\\xe9\x1b[2J"]
    shown = execzmq("ps", "-a").stdout
    assert b"\x1b" not in shown
    assert rb"caf\xe9" in shown


def test_listing_fits_the_terminal() -> None:
    """At a terminal no line is longer than it is wide."""
    execzmq("start", "--", "sh", "-c", "sleep 60", *["x" * 30] * 5)
    with UserTerminal("ps", cols=60) as terminal:
        seen = terminal.expect("…".encode())
        assert terminal.end() == 0
    assert all(len(line.decode().rstrip()) <= 60 for line in seen.splitlines())


def test_logs_are_the_bytes_of_both_streams() -> None:
    """`logs` prints stdout to stdout and stderr to stderr, from an event on, or one stream."""
    execzmq("run", "--id", "p", "--", "sh", "-c", "echo out; echo err >&2")
    done = execzmq("logs", "p")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")
    done = execzmq("logs", "--stream", "stderr", "p")
    assert (done.stdout, done.stderr) == (b"", b"err\n")
    done = execzmq("logs", "--since-seq", "2", "p")
    assert b"out" not in done.stdout or b"err" not in done.stderr
    done = execzmq("logs", "--since-seq", "1000", "p")
    assert (done.returncode, done.stdout) == (0, b"")


def test_logs_follow_until_the_end() -> None:
    """`logs -f` shows what comes as it comes and ends when the streams have ended; without it, at once."""
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", "echo first; cat")
    with running("logs", "-f", "p") as logs:
        assert logs.stdout is not None
        read_until(logs.stdout.fileno(), b"first\n")
        assert execzmq("logs", "p").stdout == b"first\n"
        execzmq("write", "p", "second\n")
        read_until(logs.stdout.fileno(), b"second\n")
        execzmq("write", "--end", "p", "")
        assert logs.wait(deadline(20).left()) == 0


def test_the_last_lines() -> None:
    """`--tail` prints the last lines of both streams or of one, an unfinished one too."""
    code = r"seq 5; read go; printf 'e1\ne2\n' >&2; read go; printf 'a\nb'"
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", code)
    with running("logs", "-f", "p") as logs:
        assert logs.stdout is not None
        assert logs.stderr is not None
        read_until(logs.stdout.fileno(), b"5\n")
        execzmq("write", "p", "go\n")
        read_until(logs.stderr.fileno(), b"e2\n")
        execzmq("write", "p", "go\n")
        assert logs.wait(deadline(20).left()) == 0
    for words, out, err in (
        (("--tail", "0"), b"", b""),
        (("--tail", "2"), b"a\nb", b""),
        (("-n", "3"), b"a\nb", b"e2\n"),
        (("-n", "5"), b"5\na\nb", b"e1\ne2\n"),
        (("-n", "100"), b"1\n2\n3\n4\n5\na\nb", b"e1\ne2\n"),
        (("-n", "all"), b"1\n2\n3\n4\n5\na\nb", b"e1\ne2\n"),
        (("-n", "1", "--stream", "stderr"), b"", b"e2\n"),
        (("-n", "9", "--since-seq", "2"), b"a\nb", b"e1\ne2\n"),
    ):
        done = execzmq("logs", *words, "p")
        assert (done.returncode, done.stdout, done.stderr) == (0, out, err), words
    for wrong in ("-1", "some", ""):
        assert execzmq("logs", "--tail", wrong, "p").returncode == 125


def test_only_what_is_new() -> None:
    """`--tail 0 -f` begins with what comes from now on."""
    execzmq("start", "-i", "--id", "p", "--", "sh", "-c", "echo old; cat")
    with running("logs", "-f", "p") as first:
        assert first.stdout is not None
        read_until(first.stdout.fileno(), b"old\n")
        with running("logs", "--tail", "0", "-f", "p") as logs:
            assert logs.stdout is not None
            said = b""
            while not said:  # it may still be on its way to the server
                execzmq("write", "p", "new\n")
                ready, _, _ = select.select([logs.stdout], [], [], 0)
                said = os.read(logs.stdout.fileno(), 100) if ready else b""
            assert said.startswith(b"new\n")
            execzmq("write", "--end", "p", "")
            assert logs.wait(deadline(20).left()) == 0


def test_what_is_gone_is_said() -> None:
    """Where the log has lost bytes, one is told how many at the place where they were."""
    code = "import os; [os.write(1, b'%07d\\n' % n * 8192) for n in range(256)]"
    words = ("--name", "small", "--log-budget", str(1 << 20), "--disk-budget", str(4 << 20))
    with running("serve", *words) as server:
        assert server.stderr is not None
        read_until(server.stderr.fileno(), b"ready")
        assert execzmq("run", "--on", "small", "--id", "p", "--", sys.executable, "-c", code).returncode == 0
        done = execzmq("logs", "--on", "small", "p")
        assert done.stdout.startswith(b"0000000\n")
        assert done.stdout.endswith(b"0000255\n")
        assert len(done.stdout) < 256 * 65536
        assert b"no longer in the log" in done.stderr
        assert execzmq("shutdown", "--on", "small").returncode == 0
        server.communicate(timeout=deadline(20).left())


def test_prefix_of_an_id() -> None:
    """The beginning of an id is enough where it is the only one; else one is told which there are."""
    for name in ("alpha-1", "alpha-2", "beta-1"):
        execzmq("run", "--id", name, "--", "echo", name)
    assert execzmq("logs", "be").stdout == b"beta-1\n"
    done = execzmq("logs", "alpha")
    assert done.returncode == 125
    assert b"alpha-1, alpha-2" in done.stderr
    assert b"ps --all" in execzmq("logs", "gamma").stderr


def test_listing_in_an_encoding_that_lacks_a_character() -> None:
    """Where stdout cannot hold a character, it is escaped."""
    execzmq("run", "--", "true", "naïve→")
    done = execzmq("ps", "-a", env=environ(PYTHONIOENCODING="latin-1", PYTHONUTF8="0"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert "naïve".encode("latin-1") + rb"\u2192" in done.stdout
