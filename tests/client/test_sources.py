"""Where stdin comes from in the caller."""

import fcntl
import os
import tempfile
from collections.abc import Iterator

import pytest

from execzmq import settings
from execzmq.client.sources import Descriptor
from execzmq.settings import KIB, WRITE_PIECE

PIPE = 64 * KIB


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return both ends of a pipe whose writer does not block."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


def test_a_pipe_that_brings_much_is_read_in_large_pieces(pipe: tuple[int, int]) -> None:
    """A full one is made to hold as much as one request carries, so that few requests are needed."""
    read_end, write_end = pipe
    source = Descriptor(read_end)
    assert os.write(write_end, bytes(WRITE_PIECE)) == PIPE
    assert len(source.read()) == PIPE
    assert os.write(write_end, bytes(2 * WRITE_PIECE)) == WRITE_PIECE
    assert len(source.read()) == WRITE_PIECE


def test_a_pipe_that_brings_little_stays_as_it_is(pipe: tuple[int, int]) -> None:
    """A user has a quota of large ones."""
    read_end, write_end = pipe
    os.write(write_end, b"line\n")
    assert Descriptor(read_end).read() == b"line\n"
    assert fcntl.fcntl(read_end, fcntl.F_GETPIPE_SZ) == PIPE


def test_a_larger_pipe_is_not_made_smaller(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner wants it so."""
    read_end, write_end = pipe
    monkeypatch.setattr(settings, "WRITE_PIECE", 2 * PIPE)
    fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, 4 * PIPE)
    os.write(write_end, bytes(PIPE))
    assert len(Descriptor(read_end).read()) == PIPE
    assert fcntl.fcntl(read_end, fcntl.F_GETPIPE_SZ) == 4 * PIPE


def test_what_is_no_pipe_is_read_in_large_pieces_too() -> None:
    """A file has no size that could be changed."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(bytes(PIPE + WRITE_PIECE + 1))
        file.seek(0)
        source = Descriptor(file.fileno())
        assert [len(source.read()) for _ in range(4)] == [PIPE, WRITE_PIECE, 1, 0]
