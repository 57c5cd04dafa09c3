"""Connection files and folders: whole, private, checked, and where everybody looks for them."""

import dataclasses
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupyter_core.paths
import pytest

from execzmq import connection
from execzmq.connection import ConnectionInfo
from execzmq.errors import ConnectionFailed, InvalidRequest
from tests.support import ms

KEY = "0123-not-to-be-seen"
INFO = ConnectionInfo("ipc", "/run/s", 1, 2, 3, 4, 5, key=KEY, epoch="e1", pid=77, hostname="h")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let new files be open to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def _write(path: Path, content: Any, mode: int = 0o600) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    path.chmod(mode)
    return path


def _fields(**changes: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(INFO), **changes}


@pytest.mark.usefixtures("open_umask")
def test_written_file_is_private_whatever_the_umask_c58(tmp_path: Path) -> None:
    """Only its owner can read a file, and what is written is what is read."""
    path = tmp_path / "new" / "connection.json"
    connection.write_connection_file(path, INFO)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert connection.load(path) == INFO
    assert os.listdir(path.parent) == [path.name]


def test_written_file_replaces_a_link_c58(tmp_path: Path) -> None:
    """A link that somebody has put in the place is replaced, not followed."""
    target = tmp_path / "target"
    path = tmp_path / "connection.json"
    path.symlink_to(target)
    connection.write_connection_file(path, INFO)
    assert not target.exists()
    assert not path.is_symlink()


def test_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Where the file cannot be put in its place, no half of it stays."""
    (tmp_path / "connection.json").mkdir()
    with pytest.raises(OSError):  # noqa: PT011  # which one is the system's affair
        connection.write_connection_file(tmp_path / "connection.json", INFO)
    assert os.listdir(tmp_path) == ["connection.json"]


def test_file_system_without_modes_is_refused_c58(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file cannot be hidden from others no key is written."""
    real = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda fd: os.stat_result((real(fd).st_mode | 0o044, *tuple(real(fd))[1:]))
    )
    with pytest.raises(ConnectionFailed, match="cannot hide"):
        connection.write_connection_file(tmp_path / "connection.json", INFO)
    assert os.listdir(tmp_path) == []


def test_only_its_owner_removes_a_file_c58(tmp_path: Path) -> None:
    """A server that ends late leaves the file of the next one alone."""
    path = tmp_path / "connection.json"
    connection.write_connection_file(path, INFO)
    assert not connection.remove_connection_file(path, pid=78, epoch="e1")
    assert not connection.remove_connection_file(path, pid=77, epoch="e2")
    assert path.exists()
    assert connection.remove_connection_file(path, pid=77, epoch="e1")
    assert not connection.remove_connection_file(path, pid=77, epoch="e1")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "not JSON"),
        (b"[" * 10_000, "not JSON"),
        (b"\xff", "not JSON"),
        ([], "not a JSON object"),
        (b" " * 70_000, "larger"),
        (_fields(key=None), "key is missing"),
        (_fields(key=5), "key is not a string"),
        (_fields(pid="5"), "pid is not an integer"),
        (_fields(pid=True), "pid is not an integer"),
        (_fields(shell_port=0), "shell_port is not a port"),
        (_fields(hb_port=70_000), "hb_port is not a port"),
        (_fields(transport="udp"), "transport"),
        (_fields(signature_scheme="none"), "signature_scheme"),
        (_fields(kernel_name="python3"), "kernel"),
    ],
)
def test_bad_file_is_refused_in_one_line(tmp_path: Path, content: Any, problem: str) -> None:
    """The error names what is wrong, in one line and without the key."""
    path = _write(tmp_path / "connection.json", content)
    with pytest.raises(ConnectionFailed, match=problem) as caught:
        connection.load(path)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    """A file of a later version can be used."""
    path = _write(tmp_path / "connection.json", _fields(jupyter_session="x", later={"a": 1}))
    assert connection.load(path) == INFO


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_file_open_to_others_is_refused_c58(tmp_path: Path, mode: int) -> None:
    """What others can read or write is not used."""
    with pytest.raises(ConnectionFailed, match="chmod 600"):
        connection.load(_write(tmp_path / "connection.json", _fields(), mode))


def test_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else has put there is not used."""
    path = _write(tmp_path / "connection.json", _fields())
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConnectionFailed, match="belongs to user"):
        connection.load(path)


@pytest.mark.timeout(ms(5000))
def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe and nothing at all are told, and none makes the reader hang."""
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name, problem in (
        ("fifo", "not a regular file"),
        ("none", "No such file"),
        ("", "not a regular file"),
    ):
        with pytest.raises(ConnectionFailed, match=problem):
            connection.load(tmp_path / name)


def test_key_is_in_no_repr() -> None:
    """What is logged or shown does not hold the keys."""
    info = dataclasses.replace(INFO, curve_secretkey="secret-curve")
    assert KEY not in repr(info)
    assert "secret-curve" not in repr(info)


def test_endpoints_are_jupyters() -> None:
    """Addresses are made of `ip` and port as Jupyter makes them."""
    assert INFO.endpoint("shell") == "ipc:///run/s-1"
    assert INFO.socket_path("hb") == "/run/s-5"
    tcp = dataclasses.replace(INFO, transport="tcp", ip="10.0.0.1")
    assert tcp.endpoint("iopub") == "tcp://10.0.0.1:3"
    assert tcp.socket_path("iopub") is None


def test_state_folder_comes_first() -> None:
    """This host's own file is found before that in the runtime folder, which hosts may share."""
    runtime, state = connection.runtime_file("n"), connection.state_folder("n") / "connection.json"
    with pytest.raises(ConnectionFailed, match="no server 'n'"):
        connection.find("n")
    connection.write_connection_file(runtime, INFO)
    assert connection.find("n") == runtime
    connection.write_connection_file(state, INFO)
    assert connection.find("n") == state
    assert os.uname().nodename in str(state)


def test_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds a `/` is a path; a file in the current folder is never found by its name."""
    connection.write_connection_file(tmp_path / "default", INFO)
    monkeypatch.chdir(tmp_path)
    assert connection.find(tmp_path / "default") == tmp_path / "default"
    assert connection.find("./default").exists()
    with pytest.raises(ConnectionFailed):
        connection.find("default")
    with pytest.raises(InvalidRequest, match=r"write \./watch\.json"):
        connection.find("watch.json")


@pytest.mark.parametrize("name", ["", "a" * 65, "a.b", "ä", "a b"])
def test_bad_name_is_refused(name: str) -> None:
    """A name cannot lead out of its folder."""
    with pytest.raises(InvalidRequest):
        connection.state_folder(name)


@pytest.mark.parametrize(
    "environment",
    [
        {"JUPYTER_RUNTIME_DIR": "/run/j"},
        {"JUPYTER_DATA_DIR": "/data/j"},
        {"XDG_DATA_HOME": "/data"},
        {},
    ],
    ids=lambda environment: next(iter(environment), "none"),
)
def test_runtime_folder_is_jupyters(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """The folder is the one that Jupyter itself computes."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(connection.jupyter_runtime_folder()) == jupyter_core.paths.jupyter_runtime_dir()


def test_sockets_are_in_the_runtime_folder(home_root: Path) -> None:
    """Where the user has a runtime folder, the sockets are in it."""
    assert connection.socket_folder("n") == home_root / "r" / "execzmq" / "n"


def test_sockets_elsewhere_where_the_path_is_too_long(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that no socket can have is avoided; servers of other states get other folders."""
    deep = short_tmp / ("d" * 80)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    folder = connection.socket_folder("n")
    assert len(str(folder)) < 60
    assert folder != connection.socket_folder("m")
    monkeypatch.setenv("XDG_STATE_HOME", str(deep))
    assert folder != connection.socket_folder("n")


@pytest.mark.parametrize("how", ["missing", "open", "relative"])
def test_bad_runtime_folder_is_not_used(short_tmp: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A runtime folder that is not there or that others can write to is not trusted."""
    folder = short_tmp / "run"
    if how == "open":
        folder.mkdir()
        folder.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run" if how == "relative" else str(folder))
    assert "run" not in connection.socket_folder("n").parts


def test_private_folder_is_made_and_closed(tmp_path: Path) -> None:
    """A folder is made 0700; one that is open is closed to others; both are then known as ours."""
    made = connection.private_folder(tmp_path / "execzmq-1" / "b")
    assert connection.folder_is_ours(made)
    assert connection.folder_is_ours(made.parent)
    made.chmod(0o755)
    assert not connection.folder_is_ours(made)
    assert connection.folder_is_ours(connection.private_folder(made))


def test_planted_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, or a folder of somebody else's, is not taken for a private one."""
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(ConnectionFailed, match="not a folder of this user"):
        connection.private_folder(tmp_path / "link")
    assert not connection.folder_is_ours(tmp_path / "link")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConnectionFailed, match="not a folder of this user"):
        connection.private_folder(tmp_path / "mine")


def test_host_id_names_this_boot_and_these_mounts() -> None:
    """The same process gets the same value twice; it names more than the host."""
    assert connection.host_id() == connection.host_id() != os.uname().nodename
