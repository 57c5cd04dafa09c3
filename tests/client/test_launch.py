"""The default server: started once whoever asks, found again, and an error says why where it cannot be."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.client import launch
from execzmq.client.known import known
from execzmq.errors import ConnectionFailed, RequestTimeout
from tests.cli.shell import execzmq
from tests.support import deadline, wait_until

FIND = "from execzmq.client.launch import ensure_default; i = ensure_default(); print(i.pid, i.epoch)"


@pytest.fixture
def servers(no_leaks: None):
    """End what the test starts."""
    yield
    assert execzmq("shutdown", "--all").returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("servers")
def test_twenty_first_users_get_one_server() -> None:
    """Twenty programs that want the default server at once get the same one."""
    users = [
        subprocess.Popen([sys.executable, "-c", FIND], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(20)
    ]
    limit = deadline(90)
    said = [user.communicate(timeout=limit.left()) for user in users]
    assert [errors for _, errors in said if errors] == []
    assert len({answer for answer, _ in said}) == 1


# Goes away when the server has been spawned and before it is ready.
LEAVE = """
import os
from execzmq.client import launch
launch._read_line = lambda *_: os._exit(0)
launch.ensure_default()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_starter_that_goes_away_leaves_one_server() -> None:
    """A starter that is killed before the server is ready costs the next user nothing."""
    subprocess.run([sys.executable, "-c", LEAVE], timeout=deadline(20).left(), check=True)
    info = launch.ensure_default()
    assert launch.ensure_default() == info


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_server_is_nobodys_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a session, a folder and variables of its own, none of the caller's secrets, and no terminal."""
    monkeypatch.setenv("MY_API_KEY", "secret-of-the-first-user")
    pid = launch.ensure_default().pid
    proc = Path(f"/proc/{pid}")
    fields = (proc / "stat").read_text().rpartition(") ")[2].split()
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert parent != os.getpid()
    assert session != os.getsid(0)
    assert terminal == 0
    assert os.readlink(proc / "cwd") == "/"
    assert os.readlink(proc / "fd/0") == "/dev/null"
    assert b"secret-of-the-first-user" not in (proc / "environ").read_bytes()
    assert f"HOME={os.environ['HOME']}".encode() in (proc / "environ").read_bytes()
    log = connection.state_folder("default") / launch.LOG_NAME
    assert log.stat().st_mode & 0o777 == 0o600
    assert f"pid {pid}" in log.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_without_a_runtime_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `XDG_RUNTIME_DIR` is missing, the default server starts all the same."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    info = launch.ensure_default()
    assert launch.running() == info
    assert launch.ensure_default() == info
    # The folder under /tmp goes by the state folder's name, so it is this test's own.
    folder = Path(info.ip).parent
    assert execzmq("shutdown", "--all").returncode == 0
    folder.rmdir() if not list(folder.iterdir()) else None


@pytest.mark.slow
@pytest.mark.usefixtures("servers")
def test_killed_server_is_replaced() -> None:
    """The file that a killed server has left does not keep the next from starting."""
    first = launch.ensure_default()
    os.kill(first.pid, 9)
    wait_until(lambda: launch.running() is None)
    second = launch.ensure_default()
    assert second.pid != first.pid
    assert second.epoch != first.epoch


@pytest.mark.slow
def test_error_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot start is an error that quotes what it said last and names its log."""
    monkeypatch.setattr(launch, "_BOOTSTRAP", "import sys; sys.exit('the disk is made of cheese')")
    with pytest.raises(ConnectionFailed, match=r"the disk is made of cheese.*server\.log"):
        launch.ensure_default()


def test_stopped_starter_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who holds the lock of starting and does nothing costs the others no more than the stated time."""
    monkeypatch.setattr(launch, "START_SECONDS", 0.05)
    with launch.start_lock("default"), pytest.raises(RequestTimeout, match="somebody else"):
        launch.ensure_default()


async def test_found_without_a_thread(short_tmp: Path) -> None:
    """A server that listens is found at once, also when it answers nothing: busy is not gone."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short_tmp / "s-1"))
        listening.listen(1)
        info = _write_connection(str(short_tmp / "s"))
        assert await launch.ensure_server() == info
        assert launch.running() == info
    assert launch.running() is None


def test_one_that_takes_over_is_waited_for() -> None:
    """Its file names a process that lives, and no epoch; after that nobody is there."""
    host = connection.host_id()
    info = connection.ConnectionInfo("ipc", "/nowhere/s", 1, 2, 4, 3, 5, "k", pid=os.getpid(), host=host)
    assert launch.listens(info)
    assert not launch.listens(replace(info, epoch="e"))
    assert not launch.listens(replace(info, host="another"))
    assert not launch.listens(replace(info, pid=0))
    assert not launch.listens(replace(info, pid=1 << 22))


def _write_connection(prefix: str) -> connection.ConnectionInfo:
    info = connection.ConnectionInfo("ipc", prefix, 1, 2, 4, 3, 5, "key", pid=os.getpid(), epoch="e")
    connection.write_connection_file(connection.state_folder("default") / "connection.json", info)
    return info


def test_known_servers() -> None:
    """Each connection file is listed once, with what is wrong with it."""
    info = _write_connection("/nowhere/s")
    connection.write_connection_file(connection.runtime_file("default"), info)
    bad = connection.runtime_file("bad")
    bad.write_text(json.dumps({"transport": "ipc"}))
    bad.chmod(0o600)
    found = {one.name: one for one in known()}
    assert set(found) == {"bad", "default"}
    assert (found["default"].info, found["default"].is_alive) == (info, False)
    assert found["bad"].info is None
    assert "missing" in found["bad"].problem


def test_core_variables() -> None:
    """What a program needs to start passes, what may be a secret does not."""
    wanted = {b"HOME": b"/h", b"PATH": b"/bin", b"LC_ALL": b"C", b"XDG_STATE_HOME": b"/s"}
    others = {b"AWS_SECRET": b"s", b"SSH_AUTH_SOCK": b"/a", b"DISPLAY": b":0", b"\xff": b"\xfe"}
    assert launch.core_variables(wanted | others) == wanted


def test_over_a_network_it_does_not_show_whether_a_server_is_back() -> None:
    """So a lost one is not waited for again, while a new client tries."""
    info = connection.ConnectionInfo("tcp", "192.0.2.7", 1, 2, 3, 4, 5, key="k")
    assert launch.listens(info)
    assert not launch.is_back(info)
