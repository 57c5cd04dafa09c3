"""Output without a server: what goes into the log, what waits, and that no error ends it or makes it spin."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execzmq.keeper import drain as drain_module
from execzmq.keeper.drain import Drain
from execzmq.keeper.launch import Tty
from execzmq.keeper.loop import Loop
from execzmq.keeper.pty import open_pty
from execzmq.keeper.table import Record
from tests.support import wait_until


class Command:
    """The two sides of a command's streams, and a drain of its own."""

    def __init__(self, folder: Path | None, *, tty: bool = False) -> None:
        self.folder = folder
        self.loop = Loop()
        self.ends = 0
        self.drain = Drain(self.loop, self._ended)
        self.theirs: dict[str, int] = {}
        self.record = Record("p", 0, {}, 1.0)
        self.record.folder = None if folder is None else os.fsencode(folder)
        (self._open_terminal if tty else self._open_pipes)()
        for fd in self.record.fds.values():
            os.set_blocking(fd, False)

    def _open_pipes(self) -> None:
        for name in ("stdout", "stderr"):
            self.record.fds[name], self.theirs[name] = os.pipe()

    def _open_terminal(self) -> None:
        master, self.theirs["stdout"] = open_pty(Tty(24, 80, echo=False))
        reader, writer = os.pipe()
        self.record.fds = {"pty": master, "mid_r": reader, "mid_w": writer}

    def _ended(self) -> None:
        self.ends += 1

    def start(self) -> None:
        """Be orphaned."""
        self.drain.start([self.record])

    def write(self, data: bytes, name: str = "stdout") -> None:
        """Say something as the command."""
        os.write(self.theirs[name], data)

    def finish(self) -> None:
        """End the command's side."""
        while self.theirs:
            os.close(self.theirs.popitem()[1])

    def turns(self, count: int = 20) -> int:
        """Serve until nothing happens at once; return how often something did."""
        for turn in range(count):
            before = self.loop.served if isinstance(self.loop, CountingLoop) else 0
            self.drain.turn()
            self.loop.serve(0.0)
            if isinstance(self.loop, CountingLoop) and self.loop.served == before:
                return turn
        return count

    def stored(self, prefix: str = "out") -> bytes:
        """Return what stands in the files of a stream."""
        assert self.folder is not None
        paths = self.folder.glob(f"{prefix}.*")
        return b"".join(
            path.read_bytes() for path in sorted(paths, key=lambda path: int(path.suffix.lstrip(".")))
        )

    def close(self) -> None:
        """Close everything."""
        self.drain.stop()
        self.finish()
        self.record.close()


class CountingLoop(Loop):
    """A loop that counts its calls."""

    served = 0

    def watch(self, fd: int, callback: Any) -> None:
        """Count each call."""

        def counted() -> None:
            self.served += 1
            callback()

        super().watch(fd, counted)


@pytest.fixture
def command(short_tmp: Path) -> Iterator[Command]:
    """A command at pipes."""
    command = Command(short_tmp / "log")
    yield command
    command.close()


@pytest.fixture
def terminal(short_tmp: Path) -> Iterator[Command]:
    """A command at a terminal."""
    command = Command(short_tmp / "log", tty=True)
    yield command
    command.close()


def test_both_streams_are_stored_to_their_ends(command: Command) -> None:
    """All that was written stands in the files, also what came before the start; the ends are told."""
    command.write(b"early ")
    command.start()
    command.turns()
    command.write(b"late")
    command.write(b"bad", "stderr")
    command.finish()
    command.turns()
    assert (command.stored("out"), command.stored("err"), command.ends) == (b"early late", b"bad", 2)
    assert command.record.is_drained()


def test_a_stream_that_only_ends_makes_no_file(command: Command) -> None:
    """Nor a folder."""
    command.start()
    command.finish()
    command.turns()
    assert command.ends == 2
    assert command.folder is not None
    assert not command.folder.exists()


def test_a_flood_is_stored_in_files_of_the_size(command: Command) -> None:
    """A file ends where it has its size."""
    command.record.segment_bytes = 10_000
    data = os.urandom(60_000)
    command.write(data)
    command.start()
    command.turns()
    assert command.stored() == data
    assert command.folder is not None
    assert all(path.stat().st_size == 10_000 for path in command.folder.iterdir())


def test_a_terminal_goes_through_its_pipe(terminal: Command) -> None:
    """What the dead server left in the pipe comes first; the end of a terminal is an end."""
    os.write(terminal.record.fds["mid_w"], b"left ")
    terminal.start()
    assert terminal.stored() == b"left "
    terminal.write(b"more")
    terminal.turns()
    terminal.finish()
    terminal.turns()
    assert (terminal.stored(), terminal.ends) == (b"left more", 1)
    assert terminal.record.is_drained()


def test_a_terminal_that_cannot_be_spliced(terminal: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel refuses, the bytes are read and written."""
    splice, master = os.splice, terminal.record.fds["pty"]

    def refusing(source: int, target: int, count: int, **more: Any) -> int:
        if source == master:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return splice(source, target, count, **more)

    monkeypatch.setattr(os, "splice", refusing)
    terminal.start()
    terminal.write(b"one ")
    terminal.turns()
    terminal.write(b"two")
    terminal.turns()
    terminal.finish()
    terminal.turns()
    assert (terminal.stored(), terminal.ends) == (b"one two", 1)


@pytest.mark.parametrize("tty", [False, True])
def test_beyond_the_limit_the_command_waits(short_tmp: Path, tty: bool) -> None:
    """The limit is that of both streams together; the rest stays where it is, and nothing spins."""
    command = Command(short_tmp / "log", tty=tty)
    command.loop = CountingLoop()
    command.drain = Drain(command.loop, command._ended)
    command.record.drain_limit_bytes = 5
    command.write(b"abcdefgh")
    command.start()
    assert command.turns() < 10
    if not tty:
        command.write(b"xyz", "stderr")
        assert command.turns() == 0
        assert command.stored("err") == b""
    assert command.stored() == b"abcde"
    assert not command.record.is_drained()
    command.close()


def test_nothing_is_moved_after_stop(command: Command) -> None:
    """A server that connects reads alone; at its end the drain goes on behind what it has stored."""
    command.start()
    command.write(b"one")
    command.turns()
    command.drain.stop()
    command.write(b"two")
    command.turns()
    assert command.stored() == b"one"
    assert command.folder is not None
    with (command.folder / "out.0").open("ab") as file:  # as the server would
        file.write(os.read(command.record.fds["stdout"], 10))
    command.start()
    command.write(b"three")
    command.turns()
    assert command.stored() == b"onetwothree"


def test_a_full_disk_is_tried_again_and_does_not_spin(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes stay in the pipe meanwhile, and both streams come in when there is room."""
    monkeypatch.setattr(drain_module, "_RETRY_SECONDS", 0.05)
    command.loop = CountingLoop()
    command.drain = Drain(command.loop, command._ended)
    with monkeypatch.context() as patch:
        patch.setattr(os, "splice", _full)
        command.start()
        command.write(b"out")
        command.write(b"err", "stderr")
        assert command.turns() <= 3
        assert command.drain.patience is not None
        assert 0 <= command.drain.patience <= 0.05
    wait_until(lambda: command.drain.patience == 0.0)
    command.turns()
    assert (command.stored("out"), command.stored("err")) == (b"out", b"err")
    assert command.drain.patience is None


def _full(*arguments: Any, **more: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("tty", [False, True])
def test_after_the_end_of_its_log_output_is_dropped(short_tmp: Path, tty: bool) -> None:
    """Whoever still writes is neither blocked nor broken, whatever the limit, and no file is made."""
    command = Command(short_tmp / "log", tty=tty)
    command.record.drain_limit_bytes = 2
    command.record.marks = {"discard"}
    command.start()
    for _ in range(3):
        command.write(b"x" * 1000)
        command.turns()
    assert command.folder is not None
    assert not command.folder.exists()
    assert not command.record.is_drained()
    command.finish()
    command.turns()
    assert command.ends == 1 if tty else 2
    command.record.write_exit()
    assert not command.folder.exists()
    command.close()


def test_a_command_without_a_folder_is_left_alone(short_tmp: Path) -> None:
    """Its output waits for the next server."""
    command = Command(None)
    command.start()
    command.write(b"waits")
    command.turns()
    assert os.read(command.record.fds["stdout"], 10) == b"waits"
    command.close()


def test_a_dropped_command_is_not_read(command: Command) -> None:
    """Its descriptors may be closed, and their numbers given to others."""
    command.start()
    command.write(b"x")
    command.drain.drop("p")
    command.drain.drop("p")
    command.turns()
    assert os.read(command.record.fds["stdout"], 10) == b"x"
