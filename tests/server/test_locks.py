"""The lock of a folder: one holder, who can be found, and who notices when it is another folder."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from execzmq.server.locks import FolderLock, Held, holder_of

HOLD = """
import fcntl, os, sys
from pathlib import Path
from execzmq.server.locks import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""
OPEN = """
import sys
file = open(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def another(code: str, path: Path) -> Iterator[int]:
    """Let another program do something with a path meanwhile; yield its pid."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_a_second_is_told_who_has_it(short_tmp: Path) -> None:
    """Until the first gives it back, which may be done twice."""
    first = FolderLock(short_tmp)
    with pytest.raises(Held) as caught:
        FolderLock(short_tmp)
    assert caught.value.pid == os.getpid()
    first.close()
    first.close()
    FolderLock(short_tmp).close()


def test_a_file_that_was_removed_opens_the_folder_to_nobody(short_tmp: Path) -> None:
    """The folder is locked itself, and the holder makes a new file."""
    first = FolderLock(short_tmp)
    assert first.is_whole()
    (short_tmp / "lock").unlink()
    assert not first.is_whole()
    with pytest.raises(Held):
        FolderLock(short_tmp)
    first.mend()
    assert first.is_whole()
    assert (short_tmp / "lock").read_text() == f"{os.getpid()}\n"
    first.close()


def test_a_folder_that_was_made_anew_is_locked_anew(short_tmp: Path) -> None:
    """By whoever is first."""
    folder = short_tmp / "f"
    folder.mkdir()
    first = FolderLock(folder)
    shutil.rmtree(folder)
    assert not first.is_whole()
    folder.mkdir()
    first.mend()
    with pytest.raises(Held):
        FolderLock(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    second = FolderLock(folder)
    with pytest.raises(Held):
        first.mend()
    assert second.is_whole()
    assert not first.is_whole()
    first.close()
    second.close()


def test_a_file_system_that_locks_no_folders(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS: the file alone is locked."""
    flock = fcntl.flock

    def refuse_folders(fd: int, operation: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(9, "Bad file descriptor")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", refuse_folders)
    first = FolderLock(short_tmp)
    with pytest.raises(Held):
        FolderLock(short_tmp)
    first.close()


def test_no_descriptor_is_left_where_it_cannot_be_had(short_tmp: Path) -> None:
    """Neither of the folder nor of the file."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No such file"):
        FolderLock(short_tmp / "none")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.slow
def test_the_holder_is_found(short_tmp: Path) -> None:
    """By the pid in the file, while it has the lock."""
    with another(HOLD, short_tmp) as pid:
        with holder_of(short_tmp) as holder:
            assert holder is not None
            assert holder.pid == pid
            assert not holder.has_ended()
            os.kill(pid, 9)
            assert holder.has_ended(10.0)
        with holder_of(short_tmp) as holder:
            assert holder is None


@pytest.mark.slow
def test_a_recycled_pid_is_not_the_holder(short_tmp: Path) -> None:
    """Who merely has that number, or even the file open, is a stranger."""
    file = short_tmp / "lock"
    with another(OPEN, Path("/dev/null")) as pid:
        file.write_text(f"{pid}\n")
        with holder_of(short_tmp) as holder:
            assert holder is None
    with another(HOLD, short_tmp), another(OPEN, file) as pid:
        file.write_text(f"{pid}\n")
        with holder_of(short_tmp) as holder:
            assert holder is None


@pytest.mark.parametrize("text", ["", "junk", "999999999\n", "0\n", "-1\n", "1e3"])
def test_a_file_that_names_nobody(short_tmp: Path, text: str) -> None:
    """Is no error."""
    (short_tmp / "lock").write_text(text)
    with holder_of(short_tmp) as holder:
        assert holder is None
    with holder_of(short_tmp / "none") as holder:
        assert holder is None


def test_the_pid_replaces_a_longer_one(short_tmp: Path) -> None:
    """Without a moment at which the file needs room that a full disk has not."""
    (short_tmp / "lock").write_text("123456789012345\n")
    FolderLock(short_tmp).close()
    assert (short_tmp / "lock").read_text() == f"{os.getpid()}\n"
