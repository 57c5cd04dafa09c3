"""`serve`, `connections`, `shutdown` and `doctor`."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.cli import commands, doctoring
from execzmq.cli.serving import BoundedLog
from execzmq.client import known, launch
from execzmq.environments import store
from tests.cli.shell import execzmq, read_until, running
from tests.support import deadline, wait_until


@pytest.mark.slow
@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_served_server_ends_cleanly(signo: signal.Signals) -> None:
    """`serve` says when it is ready and how to reach it; a signal ends it with its processes and files."""
    with running("serve", "--name", "box") as server:
        assert server.stderr is not None
        said = read_until(server.stderr.fileno(), b"ready; clients: [^\n]*\n")
        assert b"--on box" in said
        assert execzmq("run", "--on", "box", "--", "echo", "x").stdout == b"x\n"
        execzmq("start", "--on", "box", "--", "sleep", "60")
        path = str(connection.state_folder("box") / "connection.json")
        assert execzmq("run", "--on", path, "--", "echo", "y").stdout == b"y\n"
        server.send_signal(signo)
        assert server.wait(deadline(20).left()) == 0
    assert not connection.runtime_file("box").exists()
    done = execzmq("ps", "--on", "box")
    assert done.returncode == 125
    assert b"execzmq connections" in done.stderr


STUCK = """
import time
from execzmq.cli import serving
from execzmq.cli.main import main
from execzmq.server.app import Server

async def wait_for_nobody(server):
    time.sleep(1000)

serving.END_LIMIT = 0.2
Server.close = wait_for_nobody
main(["serve", "--name", "box"])
"""


@pytest.mark.slow
def test_server_that_is_stuck_in_its_end_says_where_and_is_gone() -> None:
    """Whatever holds its loop up: the limit needs no loop, and the traceback names the call."""
    with subprocess.Popen([sys.executable, "-c", STUCK], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            read_until(server.stderr.fileno(), b"ready; clients")
            server.terminate()
            _, said = server.communicate(timeout=deadline(20).left())
        finally:
            server.kill()
    assert server.returncode == 1
    assert b"in wait_for_nobody" in said


@pytest.mark.slow
def test_second_server_of_a_name_names_the_first() -> None:
    """A name that is taken is an error that names the pid of its server."""
    with running("serve", "--name", "box") as server:
        assert server.stderr is not None
        read_until(server.stderr.fileno(), b"ready; clients")
        done = execzmq("serve", "--name", "box")
        assert done.returncode == 125
        assert str(server.pid).encode() in done.stderr
        assert execzmq("shutdown", "--on", "box").returncode == 0
        assert server.wait(deadline(20).left()) == 0


@pytest.mark.slow
def test_idle_server_ends() -> None:
    """With an idle time the server ends by itself when nobody has needed it for so long."""
    with running("serve", "--name", "box", "--idle-timeout", "0.1") as server:
        assert server.stderr is not None
        read_until(server.stderr.fileno(), b"ready; clients")
        assert server.wait(deadline(20).left()) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_connections() -> None:
    """Living, dead and unusable files are listed, with pid and host, and never with a key."""
    execzmq("run", "--", "true")
    info = connection.load(connection.find("default"))
    dead = connection.ConnectionInfo("ipc", "/nowhere/s", 1, 2, 3, 4, 5, "dead-key", pid=1, hostname="far")
    connection.write_connection_file(connection.runtime_file("dead"), dead)
    connection.runtime_file("bad").write_text("{")
    listed = execzmq("connections").stdout.decode()
    rows = {line.split()[0]: line.split() for line in listed.splitlines()[1:]}
    assert rows["default"][1:4] == ["alive", str(info.pid), os.uname().nodename]
    assert rows["dead"][1:4] == ["dead", "1", "far"]
    assert rows["bad"][1] == "unusable"
    as_json = execzmq("connections", "--json").stdout.decode()
    assert {one["name"] for one in json.loads(as_json)} == {"default", "dead", "bad"}
    for shown in (listed, as_json):
        assert info.key not in shown
        assert "dead-key" not in shown
    done = execzmq("ps", "--on", "dead")
    assert done.returncode == 125
    assert b"has died" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_what_is_said_of_a_server_that_was_killed() -> None:
    """That its commands go on, and what takes them over; nobody may believe that all is ended."""
    execzmq("start", "--name", "left", "--", "sleep", "1000")
    pid = connection.load(connection.find("default")).pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not launch.listens(connection.load(connection.find("default"))))
    done = execzmq("ps")
    assert done.returncode == 125
    assert b"takes that over" in done.stderr
    done = execzmq("shutdown", "--all")
    assert done.returncode == 125
    assert b"may go on" in done.stderr
    assert execzmq("run", "--", "true").returncode == 0
    assert b"left" in execzmq("ps").stdout
    assert execzmq("kill", "left").returncode == 0
    assert execzmq("shutdown", "--all").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("name", ["default", "box"])
def test_what_is_said_of_a_server_that_has_left_its_commands(name: str) -> None:
    """After SIGHUP nobody is told that nothing runs, but what takes over what runs."""
    assert execzmq("serve", "--detach", "--name", name).returncode == 0
    execzmq("start", "--on", name, "--name", "left", "--", "sleep", "1000")
    os.kill(connection.load(connection.find(name)).pid, signal.SIGHUP)
    wait_until(lambda: not known.connection_file(name).exists())
    for words in ("ps", "--on", name), ("shutdown", "--on", name), ("shutdown", "--all"):
        done = execzmq(*words)
        assert done.returncode == 125
        assert b"its commands run on; `execzmq" in done.stderr
    assert json.loads(execzmq("connections", "--json").stdout)[0]["state"] == "ended"
    done = execzmq("connections")
    assert b"takes them over" in done.stderr
    takes_over = re.findall("`execzmq ([^`]*--detach[^`]*)`", done.stderr.decode())[0].split()
    assert execzmq(*takes_over).returncode == 0
    assert b"left" in execzmq("ps", "--on", name).stdout


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_who_loses_the_server_is_told_the_next_step() -> None:
    """The line names what starts a server, and that the same works again then."""
    execzmq("start", "--name", "left", "--", "sh", "-c", "echo ready; exec sleep 1000")
    with running("attach", "left") as attach:
        assert attach.stdout is not None
        read_until(attach.stdout.fileno(), b"ready")
        os.kill(connection.load(connection.find("default")).pid, signal.SIGKILL)
        _, said = attach.communicate(timeout=deadline(20).left())
    assert attach.returncode == 125
    assert b"`execzmq serve --detach`, then do the same again" in said
    assert said.count(b"\n") == 1
    assert execzmq("run", "--", "true").returncode == 0


@pytest.mark.slow
def test_why_a_server_did_not_start_needs_no_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The reason is told to whoever waits: the log may be on a full disk."""
    monkeypatch.setattr(launch, "_fresh_log", lambda _: os.open("/dev/full", os.O_WRONLY))
    (connection.private_folder(connection.state_folder("box")) / "connection.json").mkdir()
    assert commands.run(["serve", "--detach", "--name", "box"]) == 125
    assert "did not start: /" in capfd.readouterr().err


@pytest.mark.slow
def test_shutdown_ends_processes_and_server() -> None:
    """`shutdown` returns when the server has gone, and its processes with it."""
    execzmq("start", "--", "sleep", "60")
    pid = connection.load(connection.find("default")).pid
    assert execzmq("shutdown").returncode == 0
    words = Path(f"/proc/{pid}/cmdline")
    assert not words.exists() or words.read_bytes() == b""  # gone, though perhaps not yet reaped
    done = execzmq("shutdown", "--all")
    assert (done.returncode, done.stderr) == (0, b"execzmq: no server runs\n")
    assert execzmq("shutdown").returncode == 125


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` says what is well and what is not, here and at the server, with what to do about it."""
    done = execzmq("doctor")
    assert done.returncode == 0, done.stdout
    assert b"started on first use" in done.stdout
    assert b"ok   sandbox: privileges" in done.stdout
    execzmq("run", "--", "true")
    findings = {one["name"]: one for one in json.loads(execzmq("doctor", "--json").stdout)}
    assert all(one["ok"] for one in findings.values())
    assert "alive" in findings["server"]["text"]
    assert any(name.startswith("server: ") for name in findings)


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_doctor_looks_at_the_server_that_is_named() -> None:
    """Folders, log and keeper are those of `--on`, by name or by path."""
    assert execzmq("serve", "--detach", "--name", "box").returncode == 0
    execzmq("start", "--on", "box", "--", "sleep", "1000")
    folder = connection.state_folder("box")
    for on in "box", str(folder / "connection.json"), str(connection.runtime_file("box")):
        found = {one["name"]: one for one in json.loads(execzmq("doctor", "--json", "--on", on).stdout)}
        assert str(folder) in found["state folder"]["text"]
        assert found["log"]["text"] == str(folder / "server.log")
        assert "alive (pid" in found["keeper"]["text"]
        assert str(connection.socket_folder("box")) in found["sockets"]["text"]


def test_doctor_names_remedies(capfd: pytest.CaptureFixture[str]) -> None:
    """What is not well has a remedy, and the status is 1."""
    connection.runtime_file("bad").write_text("{")
    state = connection.state_folder("default").parent
    state.parent.mkdir()
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    assert commands.run(["doctor"]) == 1
    out = capfd.readouterr().out
    assert "BAD  connection file" in out
    assert "-> remove" in out


def test_doctor_looks_into_the_environments(capfd: pytest.CaptureFixture[str]) -> None:
    """A file that no --on can use is told before one tries, with what helps."""
    path = store.user_file()
    path.parent.mkdir(parents=True)
    path.write_text("[box]\nserver = 'box'\n")
    commands.run(["doctor"])
    assert "ok   environments: default, local, box\n" in capfd.readouterr().out
    path.write_text("[box]\nservre = 'box'\n")
    assert commands.run(["doctor"]) == 1
    out = capfd.readouterr().out
    assert f"BAD  environments: {path}: [box] has no field 'servre': did you mean server?" in out
    assert "-> correct it; until then" in out


def test_doctor_takes_no_file_for_a_server_here(tmp_path: Path) -> None:
    """What lies elsewhere is another machine's, whatever it is called."""
    assert doctoring._name_of(str(tmp_path / "team.v2.json")) == "default"
    assert doctoring._name_of(str(tmp_path / "connection.json")) == "default"
    assert doctoring._name_of("watch.json") == "default"
    assert doctoring._name_of(str(connection.state_folder("box") / "connection-tcp.json")) == "box"
    assert doctoring._name_of(str(connection.runtime_file("box"))) == "box"


def test_doctor_finds_open_folders(tmp_path: Path) -> None:
    """A folder that others can write to, a file in its place and a missing one are told apart."""
    folder = tmp_path / "f"
    assert doctoring._folder("x", folder).ok
    folder.mkdir()
    folder.chmod(0o777)
    found = doctoring._folder("x", folder)
    assert not found.ok
    assert "chmod" in found.remedy
    folder.rmdir()
    folder.write_text("")
    assert "no folder" in doctoring._folder("x", folder).text


def test_doctor_tells_of_a_dead_server(capfd: pytest.CaptureFixture[str]) -> None:
    """A connection file whose server has gone is told, with where to look."""
    dead = connection.ConnectionInfo("ipc", "/nowhere/s", 1, 2, 3, 4, 5, "k", pid=1)
    connection.write_connection_file(connection.state_folder("default") / "connection.json", dead)
    assert commands.run(["doctor"]) == 1
    assert "server.log" in capfd.readouterr().out


def test_log_in_the_background_is_bounded(tmp_path: Path) -> None:
    """The log file of a server in the background never grows far beyond its limit; the newest lines stay."""
    path = tmp_path / "server.log"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        with os.fdopen(os.dup(fd), "w") as stream:
            handler = BoundedLog(10_000, fd)
            handler.setStream(stream)
            for number in range(2000):
                handler.emit(logging.makeLogRecord({"msg": f"line {number:06d} {'x' * 40}"}))
                assert path.stat().st_size <= 10_000
    finally:
        os.close(fd)
    lines = path.read_text().splitlines()
    assert lines[-1].startswith("line 001999")
    assert all(line.startswith("line ") for line in lines)
    assert len(lines) > 50


def test_log_in_the_background_is_made_anew(tmp_path: Path) -> None:
    """A log file that was removed comes again with the next line, as soon as its folder is there."""
    path = tmp_path / "state" / "server.log"
    path.parent.mkdir()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(fd, "w") as stream:
        handler = BoundedLog(10_000, fd)
        handler.setStream(stream)
        shutil.rmtree(path.parent)
        handler.emit(logging.makeLogRecord({"msg": "lost"}))
        path.parent.mkdir()
        handler.emit(logging.makeLogRecord({"msg": "said"}))
    assert path.read_text() == "said\n"
    assert path.stat().st_mode & 0o777 == 0o600
