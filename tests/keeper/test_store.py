"""The newest file of a stream grows, by the rule of names of the server's log."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.keeper.store import Store
from execzmq.process.index import Record, pack


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose reading end does not block."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for fd in ends:
        os.close(fd)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def store_of(folder: Path, size: int = 1000) -> Store:
    """Return the stdout of a log."""
    return Store(os.fsencode(folder), b"out", size)


def test_first_byte_makes_folder_and_file(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """A log that was in memory only begins on disk at offset 0, for the user alone."""
    folder = short_tmp / "p" / "x"
    store = store_of(folder)
    assert not folder.exists()
    os.write(pipe[1], b"abc")
    assert store.splice_from(pipe[0], 100) == 3
    store.close()
    assert files_of(folder) == {"out.0": b"abc"}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert oct((folder / "out.0").stat().st_mode & 0o777) == "0o600"


def test_newest_file_grows(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """What is there is neither overwritten nor taken for another stream's or for an index."""
    for name, data in {"out.0": b"x" * 9, "out.9": b"y", "err.50": b"", "idx.70": b"", "exit": b"{}"}.items():
        (short_tmp / name).write_bytes(data)
    store = store_of(short_tmp)
    os.write(pipe[1], b"zz")
    assert store.splice_from(pipe[0], 100) == 2
    store.close()
    assert files_of(short_tmp)["out.9"] == b"yzz"


def test_full_file_is_followed_by_another(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """No file grows beyond the size, and each is named by its first offset."""
    (short_tmp / "out.100").write_bytes(b"0123456789")
    store = store_of(short_tmp, 4)
    os.write(pipe[1], b"abcdefghij")
    moved = [store.splice_from(pipe[0], 100) for _ in range(3)]
    store.close()
    assert moved == [4, 4, 2]
    assert files_of(short_tmp) == {
        "out.100": b"0123456789",
        "out.110": b"abcd",
        "out.114": b"efgh",
        "out.118": b"ij",
    }


def index_record(seq: int, stdout: int, stderr: int) -> bytes:
    """Return a record as the server writes it."""
    return pack(Record(seq, "output", "stdout", 1, stdout - 1, 0.0, stdout, stderr))


@pytest.mark.parametrize(
    ("left", "begins"), [({}, 30), ({"out.0": b"x" * 9}, 30), ({"out.20": b"x" * 20}, 20)]
)
def test_no_other_bytes_get_an_offset_that_was_told(
    short_tmp: Path, pipe: tuple[int, int], left: dict[str, bytes], begins: int
) -> None:
    """Where files of data were removed or cut, the stream goes on at the end that the index tells."""
    (short_tmp / "idx.1").write_bytes(index_record(1, 5, 0))
    (short_tmp / "idx.4").write_bytes(b"")
    (short_tmp / "idx.2").write_bytes(index_record(2, 20, 3) + index_record(3, 30, 7) + b"torn")
    for name, data in left.items():
        (short_tmp / name).write_bytes(data)
    os.write(pipe[1], b"abc")
    store = store_of(short_tmp)
    assert store.splice_from(pipe[0], 100) == 3
    store.close()
    assert files_of(short_tmp)[f"out.{begins}"] == left.get(f"out.{begins}", b"") + b"abc"
    os.write(pipe[1], b"abc")
    errors = Store(os.fsencode(short_tmp), b"err", 1000)
    assert errors.splice_from(pipe[0], 100) == 3
    errors.close()
    assert files_of(short_tmp)["err.7"] == b"abc"


def test_an_index_that_is_damaged_leaves_the_bytes(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """They wait for the next server."""
    (short_tmp / "idx.1").write_bytes(bytes(520))
    os.write(pipe[1], b"abc")
    store = store_of(short_tmp)
    with pytest.raises(OSError, match="index"):
        store.splice_from(pipe[0], 100)
    assert os.read(pipe[0], 10) == b"abc"
    assert os.listdir(short_tmp) == ["idx.1"]


def test_limit_and_nothing_there(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """No more is moved than is asked for, and an empty pipe is no end."""
    store = store_of(short_tmp)
    os.write(pipe[1], b"abc")
    assert store.splice_from(pipe[0], 2) == 2
    assert store.splice_from(pipe[0], 2) == 1
    with pytest.raises(BlockingIOError):
        store.splice_from(pipe[0], 2)
    store.close()


def test_disk_that_takes_nothing_leaves_the_bytes(short_tmp: Path, pipe: tuple[int, int]) -> None:
    """A folder that cannot be made, then can: the bytes have waited in the pipe."""
    blocker = short_tmp / "p"
    blocker.touch()
    store = store_of(blocker / "x")
    os.write(pipe[1], b"abc")
    with pytest.raises(OSError, match="directory"):
        store.splice_from(pipe[0], 100)
    blocker.unlink()
    assert store.splice_from(pipe[0], 100) == 3
    store.close()
