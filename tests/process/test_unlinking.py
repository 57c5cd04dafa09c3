"""Files are removed without waiting for the disk."""

import os
import threading
from pathlib import Path

import pytest

from execzmq.process import unlinking
from tests.support import wait_until


def make(folder: Path, size: int, name: str = "file") -> str:
    """Make a file of that size and return its path."""
    path = folder / name
    path.write_bytes(bytes(size))
    return str(path)


def test_a_small_file_is_simply_removed(short_tmp: Path) -> None:
    """No thread is worth it."""
    unlinking.unlink(make(short_tmp, 100), 100)
    assert not os.listdir(short_tmp)
    assert threading.active_count() == 1


def test_a_large_file_is_freed_elsewhere(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is gone at once; the close that frees it is made by a thread, which then ends."""
    closers: list[str] = []
    close = os.close

    def note(fd: int) -> None:
        closers.append(threading.current_thread().name)
        close(fd)

    monkeypatch.setattr(os, "close", note)
    for number in range(10):
        unlinking.unlink(make(short_tmp, 1 << 20), 1 << 20)
        assert not os.listdir(short_tmp), number
    wait_until(lambda: len(closers) == 10 and threading.active_count() == 1)
    assert set(closers) == {"execzmq-unlink"}


def test_only_so_many_wait(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever removes more than the thread can free does it himself, so that descriptors are not used up."""
    monkeypatch.setattr(unlinking, "_MOST", 0)
    before = set(os.listdir("/proc/self/fd"))
    unlinking.unlink(make(short_tmp, 1 << 20), 1 << 20)
    assert set(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_is_no_error(short_tmp: Path) -> None:
    """Large or small, the wish is fulfilled."""
    unlinking.unlink(str(short_tmp / "none"), 1 << 20)
    unlinking.unlink(str(short_tmp / "none"), 1)


def test_without_a_descriptor_it_is_removed_all_the_same(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of open files."""

    def refuse(*_args: object) -> int:
        raise OSError(24, "Too many open files")

    path = make(short_tmp, 1 << 20)
    monkeypatch.setattr(os, "open", refuse)
    unlinking.unlink(path, 1 << 20)
    assert not os.listdir(short_tmp)


def test_a_folder_is_emptied(short_tmp: Path) -> None:
    """Files go, whatever their size; a link's target, and what is in other folders, stays."""
    inner = short_tmp / "inner"
    inner.mkdir()
    kept = make(inner, 10)
    for number in range(3):
        make(short_tmp, number << 16, str(number))
    (short_tmp / "link").symlink_to(kept)
    unlinking.empty_folder(str(short_tmp))
    assert sorted(os.listdir(short_tmp)) == ["inner", "link"]
    assert os.path.exists(kept)
    unlinking.empty_folder(str(short_tmp / "none"))
