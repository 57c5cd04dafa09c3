"""The bytes of a stream: moved from pipes, found again across files, dropped as whole files."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.process.segments import SegmentedStream

SIZE = 4096


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """A pipe whose reading end does not block."""
    ends = list(os.pipe())
    os.set_blocking(ends[0], False)
    yield ends
    for fd in ends:
        if fd >= 0:
            os.close(fd)


@pytest.fixture
def stream(short_tmp: Path) -> Iterator[SegmentedStream]:
    """An empty stream with small files."""
    stream = SegmentedStream(str(short_tmp), "out", SIZE)
    yield stream
    stream.close()


def _end(pipe: list[int]) -> None:
    os.close(pipe[1])
    pipe[1] = -1


def _add(stream: SegmentedStream, data: bytes) -> None:
    offset = stream.end
    stream.append(data)
    stream.note_record(offset)


def test_splice_moves_what_is_there(stream: SegmentedStream, pipe: list[int], short_tmp: Path):
    """All bytes that wait are moved in one call, whatever pieces they were written in."""
    for piece in (b"one ", b"two ", b"three"):
        os.write(pipe[1], piece)
    assert stream.splice_from(pipe[0], 1000) == 13
    assert stream.read(0, 13) == b"one two three"
    assert (short_tmp / "out.0").read_bytes() == b"one two three"


def test_splice_stops_at_its_limit(stream: SegmentedStream, pipe: list[int]):
    """What is beyond the limit stays in the pipe."""
    os.write(pipe[1], b"abcdef")
    assert stream.splice_from(pipe[0], 4) == 4
    assert os.read(pipe[0], 10) == b"ef"


def test_nothing_there_is_not_the_end(stream: SegmentedStream, pipe: list[int], short_tmp: Path):
    """An empty pipe raises, a closed one answers 0, and neither makes a file."""
    with pytest.raises(BlockingIOError):
        stream.splice_from(pipe[0], 100)
    _end(pipe)
    assert stream.splice_from(pipe[0], 100) == 0
    assert os.listdir(short_tmp) == []


def test_end_after_data(stream: SegmentedStream, pipe: list[int]):
    """Bytes come first, then the end."""
    os.write(pipe[1], b"last")
    _end(pipe)
    assert stream.splice_from(pipe[0], 100) == 4
    assert stream.splice_from(pipe[0], 100) == 0


def test_a_source_that_cannot_be_spliced_is_read(stream: SegmentedStream):
    """Where splice answers EINVAL, as from a terminal into a file, the bytes are read and written."""
    master, slave = os.openpty()
    try:
        os.write(slave, b"from a terminal")
        assert stream.splice_from(master, 100) == 15
    finally:
        os.close(master)
        os.close(slave)
    assert stream.read(0, 15) == b"from a terminal"


def test_full_file_ends_between_events(stream: SegmentedStream, short_tmp: Path):
    """A file ends after the event that fills it; the next begins with the next offset as its name."""
    stream.append(b"a" * (SIZE - 1))
    stream.append(b"b" * 10)
    stream.note_record(0)
    stream.append(b"c")
    assert sorted(os.listdir(short_tmp)) == ["out.0", f"out.{SIZE + 9}"]
    assert stream.end == SIZE + 10


def test_many_small_events_fill_a_file_too(stream: SegmentedStream):
    """Index records count as bytes of the file, else dropping files would not bound the index."""
    for _ in range(200):
        _add(stream, b"x")
    assert len(stream.segments) > 1


def test_one_read_fills_several_places(stream: SegmentedStream):
    """The bytes of one file go where the caller wants them, in one read."""
    stream.append(b"0123456789")
    buffer = bytearray(b"." * 9)
    view = memoryview(buffer)
    stream.read_into(stream.segments[0], 2, [view[0:3], view[6:8]])
    assert buffer == b"234...56."


def test_dropped_bytes_are_not_found(stream: SegmentedStream, short_tmp: Path):
    """What was in an unlinked file is gone, its neighbours are where they were."""
    for letter in b"abc":
        _add(stream, bytes([letter]) * SIZE)
    stream.drop(stream.segments[1])
    assert stream.find(SIZE, 1) is None
    assert stream.find(2 * SIZE - 1, 2) is None
    with pytest.raises(OSError, match="gone"):
        stream.read(SIZE, 5)
    assert stream.read(2 * SIZE, 5) == b"ccccc"
    assert stream.bytes_on_disk == 2 * SIZE
    assert sorted(os.listdir(short_tmp)) == ["out.0", f"out.{2 * SIZE}"]


def test_later_life_goes_on(stream: SegmentedStream, short_tmp: Path):
    """Files that an earlier life left are read, and the last of them is written on."""
    _add(stream, b"a" * SIZE)
    _add(stream, b"b")
    stream.close()
    again = SegmentedStream(str(short_tmp), "out", SIZE)
    again.load([SIZE, 0])
    again.append(b"c")
    again.close()
    assert again.read(SIZE, 2) == b"bc"
    assert again.end == SIZE + 2
    assert len(os.listdir(short_tmp)) == 2


@pytest.mark.parametrize("end", [0, 1, SIZE, SIZE + 1, 2 * SIZE + 1, 2 * SIZE + 5])
def test_cut_discards_the_rest(stream: SegmentedStream, end: int):
    """What lies at and after an offset goes and is counted; writing goes on from there."""
    for letter in b"abc":
        _add(stream, bytes([letter]) * SIZE)
    assert stream.cut(end) == max(0, 3 * SIZE - end)
    assert stream.end == stream.bytes_on_disk == end
    stream.append(b"z")
    assert stream.read(end, 1) == b"z"


def test_a_full_disk_leaves_the_end_where_it_was(stream: SegmentedStream, monkeypatch: pytest.MonkeyPatch):
    """Bytes of which only a part could be written do not count, and the next ones take their place."""
    stream.append(b"first ")
    write = os.pwrite
    answers: Iterator[int | OSError] = iter([3, OSError(errno.ENOSPC, "full")])

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return write(fd, data[:answer], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match="full"):
        stream.append(b"lost")
    monkeypatch.setattr(os, "pwrite", write)
    assert stream.end == 6
    stream.append(b"second")
    assert stream.read(0, 12) == b"first second"


def test_close_is_idempotent(stream: SegmentedStream):
    """Closing twice does no harm, and reading goes on to work."""
    stream.append(b"data")
    stream.close()
    stream.close()
    assert stream.read(0, 4) == b"data"
