"""The state folder of a server: one server per name, files of its own only."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.connection import ConnectionInfo
from execzmq.errors import Conflict, ConnectionFailed, VersionMismatch
from execzmq.server.state import StateFolder


def info_of(state: StateFolder, epoch: str = "e1", pid: int | None = None) -> ConnectionInfo:
    """Return what a server of that folder would announce."""
    return ConnectionInfo(
        "ipc", "/none/s", 1, 2, 4, 3, 5, state.key(), epoch=epoch, pid=os.getpid() if pid is None else pid
    )


def test_a_name_has_one_server() -> None:
    """The second is told the pid of the first; another name is free; after the end the name is free again."""
    first = StateFolder("one")
    with pytest.raises(Conflict, match=str(os.getpid())) as caught:
        StateFolder("one")
    assert (caught.value.name, caught.value.pid) == ("one", os.getpid())
    StateFolder("two").close()
    first.close()
    first.close()
    StateFolder("one").close()


def test_the_folder_is_for_its_user_alone() -> None:
    """Whatever the mask."""
    before = os.umask(0)
    try:
        state = StateFolder("one")
    finally:
        os.umask(before)
    assert state.path.stat().st_mode & 0o777 == 0o700
    assert (state.path / "lock").stat().st_mode & 0o777 == 0o600
    state.close()


def test_a_folder_that_is_a_link_is_refused(short_tmp: Path) -> None:
    """Somebody else may have made it."""
    path = connection.state_folder("one")
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(short_tmp)
    with pytest.raises(ConnectionFailed, match="is not a folder of this user's"):
        StateFolder("one")


def test_both_files_are_announced_and_withdrawn_c58() -> None:
    """Where `connect` looks first and among Jupyter's, each 0600."""
    state = StateFolder("one")
    info = info_of(state)
    state.announce(info)
    files = [state.connection_file, connection.runtime_file("one")]
    assert [connection.load(path) for path in files] == [info, info]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
    state.withdraw(info)
    assert not any(path.exists() for path in files)
    state.withdraw(info)
    state.close()


@pytest.mark.parametrize("change", [{"epoch": "e2"}, {"pid": 1}])
def test_what_another_life_has_written_stays_c58(change: dict[str, object]) -> None:
    """A file is removed by its owner only."""
    state = StateFolder("one")
    info = info_of(state)
    state.announce(replace(info, **change))  # type: ignore[arg-type]  # the fields of either change are right
    state.withdraw(info)
    assert state.connection_file.exists()
    state.close()


def test_the_key_of_a_name_is_kept() -> None:
    """So that clients come back, also after an end in order; it is long, and its user's alone."""
    state = StateFolder("one")
    first = info_of(state)
    assert len(first.key) == 64
    state.announce(first)
    state.withdraw(first)
    state.close()
    again = StateFolder("one")
    assert again.key() == first.key
    file = again.path / "key"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("")
    assert again.key() not in ("", first.key)
    again.close()


def test_the_state_of_a_later_version_is_not_touched() -> None:
    """Both formats are named."""
    state = StateFolder("one")
    state.close()
    path = state.path / "state.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "format": found["format"] + 1}))
    with pytest.raises(VersionMismatch) as caught:
        StateFolder("one")
    assert (caught.value.ours, caught.value.theirs) == (found["format"], found["format"] + 1)
    path.write_text("junk")
    StateFolder("one").close()


def test_a_file_that_cannot_be_removed_is_said_and_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a disk that is read-only by now, say; the end of the server goes on."""
    state = StateFolder("one")
    info = info_of(state)
    state.announce(info)
    unlink = os.unlink

    def refuse(path: Path) -> None:
        if path == state.connection_file:
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refuse)
    state.withdraw(info)
    assert state.connection_file.exists()
    assert not connection.runtime_file("one").exists()
    assert "cannot be removed" in caplog.text
    state.close()


@pytest.mark.parametrize("junk", [b"[1]", b"null", b"\xff", b"{"])
def test_junk_in_its_files_is_written_anew(junk: bytes) -> None:
    """A server starts all the same, with another key where that was spoilt."""
    first = StateFolder("one")
    key = first.key()
    first.close()
    (first.path / "state.json").write_bytes(junk)
    (first.path / "key").write_bytes(b"\xff\xfe")
    again = StateFolder("one")
    assert again.key() not in ("", key)
    again.close()
    assert json.loads((first.path / "state.json").read_text())["format"]
