"""The folder of one ssh connection: private, and gone with its user."""

import os
import stat
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.environments.ssh_folder import SshFolder, connections_of
from execzmq.errors import ConnectionFailed


def test_folder_is_private_and_goes() -> None:
    """It is beside those of the user's own servers, and takes its sockets with it."""
    folder = SshFolder("box")
    assert folder.path.parent == connection.socket_folder("default").parent
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    Path(folder.control).touch()
    folder.close()
    folder.close()
    assert not os.listdir(folder.path.parent)


@pytest.mark.parametrize("name", ["a b", "a:b", "a%h", "x" * 50])
def test_folder_whose_path_ssh_would_read_otherwise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is the one that all programs of the user share."""
    runtime = tmp_path / name
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = SshFolder("box")
    assert folder.path.parent == connection.shared_folder()
    folder.close()


def test_next_one_removes_what_has_no_user() -> None:
    """Those in use stay, also while another one is made."""
    used, left = SshFolder("box"), SshFolder("box")
    os.close(left._lock)  # as the end of its process does
    left._lock = -1
    SshFolder("box").close()
    assert used.path.exists()
    assert not left.path.exists()
    used.close()


def test_clear_removes_what_is_in_the_way() -> None:
    """What an ssh has left goes; a folder that others removed is made anew, and locked."""
    folder = SshFolder("box")
    Path(folder.control).touch()
    folder.clear()
    assert not os.listdir(folder.path)
    folder.path.rmdir()
    folder.clear()
    SshFolder("box").close()
    assert folder.path.exists()
    folder.close()


def test_what_is_told_of_connections() -> None:
    """Others see which environments are connected at the moment, but not what killed programs have left."""
    one, other, left = SshFolder("box"), SshFolder("box"), SshFolder("box")
    for folder in (one, other, left):
        folder.tell(is_up=True)
    other.tell(is_up=False)
    os.close(left._lock)
    left._lock = -1
    assert sorted(connections_of("box")) == [False, True]
    assert connections_of("bo") == []
    other.clear()
    assert sorted(connections_of("box")) == [False, True]
    one.close()
    other.close()
    assert connections_of("box") == []


def test_no_room_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where, and nothing is left."""
    monkeypatch.setattr("os.rename", _fail)
    with pytest.raises(ConnectionFailed, match=r"no folder for ssh's sockets in .*: No space left"):
        SshFolder("box")
    assert not os.listdir(connection.socket_folder("default").parent)


def _fail(*_paths: object) -> None:
    raise OSError(28, "No space left on device")
