"""`ps`, and how processes are named."""

import json
import subprocess

import pytest

from tests.cli.shell import EXECZMQ, UserTerminal, environ, execzmq

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
