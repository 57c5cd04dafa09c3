"""The way from a terminal into a pipe, with and without the kernel's help."""

import errno
import os
from collections.abc import Iterator

import pytest

from execzmq.keeper import terminal
from execzmq.keeper.launch import Tty
from execzmq.keeper.pty import open_pty


@pytest.fixture
def ends() -> Iterator[tuple[int, int, int, int]]:
    """Master, slave, and the two ends of a pipe, none of which blocks on our side."""
    master, slave = open_pty(Tty(24, 80, echo=False))
    reader, writer = os.pipe()
    for fd in (master, reader, writer):
        os.set_blocking(fd, False)
    yield master, slave, reader, writer
    for fd in (master, reader, writer):
        os.close(fd)


@pytest.fixture(params=["splice", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel's own way, and that of kernels which refuse it."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    if request.param == "copy":
        monkeypatch.setattr(os, "splice", refuse)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_bytes_come_through_in_order_and_the_end_shows(ends: tuple[int, int, int, int]) -> None:
    """Nothing there is told as that; the end comes when nobody has the terminal open."""
    master, slave, reader, writer = ends
    with pytest.raises(BlockingIOError):
        terminal.fill(master, reader, writer, 100)
    for word in (b"one", b"two"):
        os.write(slave, word)
        assert terminal.fill(master, reader, writer, 100) == 3
        assert os.read(reader, 100) == word
    os.close(slave)
    assert terminal.fill(master, reader, writer, 100) == 0
    assert terminal.read(master, 100) == b""


@pytest.mark.usefixtures("way")
def test_what_a_pipe_has_no_room_for_stays_in_the_terminal(ends: tuple[int, int, int, int]) -> None:
    """While nobody takes what is in the pipe, nothing that was read has nowhere to go."""
    master, slave, reader, writer = ends
    os.write(writer, bytes(1 << 20))  # as much as fits
    before = terminal.unread_bytes(reader)
    os.write(slave, b"kept")
    with pytest.raises(BlockingIOError):
        terminal.fill(master, reader, writer, 100)
    assert len(os.read(reader, before)) == before
    assert terminal.fill(master, reader, writer, 100) == 4
    assert os.read(reader, 100) == b"kept"
    os.close(slave)
