"""What a process is yet to read: accepted exactly once, fed without waiting, taken up again after a kill."""

import contextlib
import errno
import os
import pty
import random
import select
import signal
import socket
import subprocess
import tempfile
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import InvalidRequest, LimitExceeded, StdinClosed
from execzmq.process import stdin, stdin_files
from execzmq.process.stdin import FEED_MOST, StdinQueue, eof_bytes
from execzmq.process.stdin_files import RECORD_SIZE
from execzmq.settings import KIB, MIB, STDIN_UNREAD
from tests.support import child, deadline


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose two ends do not block."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    yield read, write
    for fd in (read, write):
        with contextlib.suppress(OSError):
            os.close(fd)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The master, which does not block, and the slave of a terminal in raw mode."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    yield master, slave
    for fd in (master, slave):
        with contextlib.suppress(OSError):
            os.close(fd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "instance"


def read_now(fd: int) -> bytes:
    """Return what is there to be read without waiting."""
    pieces = []
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(fd, MIB):
            pieces.append(piece)
    return b"".join(pieces)


def feed_all(queue: StdinQueue, read: int) -> bytes:
    """Feed and read until nothing waits."""
    pieces = []
    while True:
        more = queue.feed()
        pieces.append(read_now(read))
        if not more:
            return b"".join(pieces)


def text(size: int, seed: int = 0) -> bytes:
    """Return `size` bytes that do not repeat."""
    return random.Random(seed).randbytes(size)


def segments(folder: Path) -> list[str]:
    """Return the names of the files of input."""
    return sorted(path.name for path in folder.glob("in.*") if path.name != "in.idx")


def test_no_file_before_the_first_byte(folder: Path, pipe: tuple[int, int]):
    """A queue that is never written to leaves the disk alone."""
    queue = StdinQueue(folder, pipe[1])
    assert not queue.feed()
    assert queue.drained
    queue.close()
    assert not folder.exists()


def test_bytes_arrive_in_order_and_offsets_are_each_sessions_own(folder: Path, pipe: tuple[int, int]):
    """Two sessions write alternately; each counts its own bytes."""
    queue = StdinQueue(folder, pipe[1])
    assert queue.accept("a", 0, b"one ", False) == 4
    assert queue.accept("b", 0, memoryview(b"two "), False) == 4
    assert queue.accept("a", 4, bytearray(b"three"), False) == 9
    assert queue.unread == 13
    assert (queue.offset_of("a"), queue.offset_of("b"), queue.offset_of("c")) == (9, 4, 0)
    assert feed_all(queue, pipe[0]) == b"one two three"
    assert queue.drained
    queue.close()


def test_repeated_and_overlapping_writes_are_stored_once(folder: Path, pipe: tuple[int, int]):
    """A repeat appends nothing, an overlap only its rest."""
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"0123456789", False)
    assert queue.accept("a", 0, b"0123456789", False) == 10
    assert queue.accept("a", 3, b"34", False) == 10
    assert queue.accept("a", 8, b"89abc", False) == 13
    assert feed_all(queue, pipe[0]) == b"0123456789abc"
    queue.close()


def test_an_offset_beyond_what_came_is_refused_with_the_right_one(folder: Path, pipe: tuple[int, int]):
    """The refusal says where to go on; nothing was accepted."""
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"0123", False)
    with pytest.raises(InvalidRequest) as caught:
        queue.accept("a", 5, b"x", False)
    assert caught.value.offset == 4
    assert feed_all(queue, pipe[0]) == b"0123"
    queue.close()


def test_nothing_follows_the_end(folder: Path, pipe: tuple[int, int]):
    """After the end mark a write is refused, a repeat of the last one and a second end are not."""
    queue = StdinQueue(folder, pipe[1])
    assert queue.accept("a", 0, b"bye", True) == 3
    assert (queue.ended, queue.drained) == (True, False)
    assert queue.accept("a", 0, b"bye", True) == 3
    assert queue.accept("a", 3, b"", True) == 3
    assert queue.accept("b", 0, b"", True) == 0
    for session, offset in (("a", 3), ("b", 0)):
        with pytest.raises(StdinClosed):
            queue.accept(session, offset, b"more", False)
    assert feed_all(queue, pipe[0]) == b"bye"
    assert queue.drained
    queue.close()


def test_room_is_bounded_but_one_write_always_fits(folder: Path, pipe: tuple[int, int], monkeypatch):
    """16 MiB may be unread; where nothing is, any size goes in."""
    monkeypatch.setattr(stdin, "STDIN_UNREAD", 100 * KIB)
    queue = StdinQueue(folder, pipe[1])
    assert queue.has_room(STDIN_UNREAD * 2)
    queue.accept("a", 0, bytes(90 * KIB), False)
    assert queue.has_room(10 * KIB)
    assert not queue.has_room(10 * KIB + 1)
    feed_all(queue, pipe[0])
    assert queue.has_room(MIB)
    queue.close()


def test_one_feed_is_bounded(folder: Path, pipe: tuple[int, int]):
    """A process that reads as fast as it is fed does not keep the loop."""
    sink = os.open(folder.parent / "sink", os.O_RDWR | os.O_CREAT)
    queue = StdinQueue(folder, sink)
    queue.accept("a", 0, bytes(FEED_MOST + 1), False)
    assert queue.feed()
    assert queue.unread == 1
    assert not queue.feed()
    os.close(sink)
    queue.close()


def test_segments_go_when_they_are_fed(folder: Path, pipe: tuple[int, int], monkeypatch):
    """Input lies in segments; what is fed is unlinked and its descriptor closed."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 100 * KIB)
    held: list[int] = []

    def hold(fd: int) -> bool:
        held.append(fd)
        return True

    queue = StdinQueue(folder, pipe[1], on_segment=hold)
    data = text(350 * KIB)
    queue.accept("a", 0, data, False)
    assert segments(folder) == ["in.0", "in.102400", "in.204800", "in.307200"]
    assert feed_all(queue, pipe[0]) == data
    assert segments(folder) == ["in.307200"]
    assert len(held) == 4
    assert queue.feeding_fd == held[-1]
    queue.close()


def test_a_new_segment_after_all_was_fed(folder: Path, pipe: tuple[int, int], monkeypatch):
    """A full segment that was fed whole makes place for the next one."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 10)
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"0123456789", False)
    assert feed_all(queue, pipe[0]) == b"0123456789"
    queue.accept("a", 10, b"abc", False)
    assert feed_all(queue, pipe[0]) == b"abc"
    assert segments(folder) == ["in.10"]
    queue.close()


def test_nothing_is_fed_before_the_keeper_holds_the_segment(folder: Path, pipe: tuple[int, int]):
    """While the description is not handed over, feeding waits and asks again."""
    answers = [False, False, True]
    queue = StdinQueue(folder, pipe[1], on_segment=lambda fd: answers.pop(0))
    queue.accept("a", 0, b"x", False)
    assert queue.feed()
    assert queue.feed()
    assert read_now(pipe[0]) == b""
    assert not queue.feed()
    assert read_now(pipe[0]) == b"x"
    queue.close()


def test_a_reader_that_goes_breaks_the_queue(folder: Path, pipe: tuple[int, int]):
    """EPIPE drops what is unread, and its files; the next write is told."""
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"x" * 10, False)
    os.close(pipe[0])
    assert not queue.feed()
    assert queue.broken
    assert queue.drained
    assert segments(folder) == []
    assert queue.accept("a", 0, b"x" * 10, False) == 10
    assert queue.accept("a", 10, b"", True) == 10
    with pytest.raises(StdinClosed):
        queue.accept("a", 10, b"y", False)
    queue.close()


def test_a_full_disk_accepts_nothing_and_spoils_nothing(folder: Path, pipe: tuple[int, int], monkeypatch):
    """What was stored by half is taken back; the same write goes through later."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 10)
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"0123", False)
    real = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if full and len(data) == RECORD_SIZE:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    full = True
    with pytest.raises(LimitExceeded, match="full"):
        queue.accept("a", 4, b"x" * 30, False)
    assert queue.offset_of("a") == 4
    assert queue.unread == 4
    full = False
    assert queue.accept("a", 4, b"y" * 30, False) == 34
    assert feed_all(queue, pipe[0]) == b"0123" + b"y" * 30
    queue.close()


def test_close_is_idempotent_and_leaves_the_files(folder: Path, pipe: tuple[int, int]):
    """`close` gives up descriptors, `discard` the files too."""
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"x", False)
    queue.close()
    queue.close()
    assert segments(folder) == ["in.0"]
    with pytest.raises(StdinClosed):
        queue.accept("a", 1, b"y", False)
    queue.discard()
    queue.discard()
    assert segments(folder) == []


# End of a terminal's input


@pytest.mark.parametrize(
    ("newline", "veof", "expected"),
    [(True, b"\x04", b"\x04"), (False, b"\x04", b"\x04\x04"), (False, b"\0", b""), (True, b"", b"")],
)
def test_eof_bytes(newline: bool, veof: bytes, expected: bytes):
    """One VEOF at the start of a line, two behind an unfinished one, none where the terminal has none."""
    assert eof_bytes(newline, veof) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", b"\x04"), (b"line\n", b"line\n\x04"), (b"line", b"line\x04\x04"), (b"x\r", b"x\r\x04")],
)
def test_the_end_on_a_terminal_is_its_veof(folder: Path, data: bytes, expected: bytes):
    """The VEOF counts as nobody's byte, and input may go on after it."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    queue = StdinQueue(folder, master, terminal=True)
    assert queue.accept("a", 0, data, True) == len(data)
    assert queue.unread == len(expected)
    assert not queue.ended
    assert queue.accept("a", 0, data, True) == len(data)
    assert queue.unread == len(expected)
    assert queue.accept("a", len(data), b"more\n", True) == len(data) + 5
    assert queue.unread == len(expected) + 6
    queue.close()
    os.close(master)
    os.close(slave)


@pytest.mark.slow
def test_a_program_on_a_terminal_sees_the_end(folder: Path):
    """`cat` ends after an unfinished line and VEOF twice; the terminal itself lives on."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    script = ["sh", "-c", "stty -echo; echo ready; cat; echo; read x; echo got $x"]
    process = subprocess.Popen(script, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    queue = StdinQueue(folder, master, terminal=True)
    assert read_until(master, b"ready") == b"ready\r\n"
    queue.accept("a", 0, b"unfinished", True)
    queue.accept("b", 0, b"further\n", False)
    assert not queue.feed()
    assert b"unfinished\r\ngot further" in read_until(master, b"further\r\n")
    assert process.wait(timeout=10) == 0
    queue.close()
    os.close(master)


def read_until(fd: int, mark: bytes) -> bytes:
    """Return what a terminal says up to `mark`."""
    said, limit = b"", deadline(10)
    while mark not in said or not said.endswith(b"\n"):
        select.select([fd], [], [], limit.left())
        said += os.read(fd, 4096)
    return said


# Terminals and pipes


def test_a_terminal_that_does_not_read_blocks_nothing_c34(folder: Path, terminal: tuple[int, int]):
    """A paste of 8 MB is accepted at once, fed as far as the terminal takes it, and then waits."""
    master, slave = terminal
    queue = StdinQueue(folder, master, terminal=True)
    before = time.monotonic()
    for piece in range(8):
        queue.accept("a", piece * MIB, bytes(MIB), False)
        assert queue.feed()
    assert time.monotonic() - before < 2
    assert 8 * MIB - 64 * KIB < queue.unread < 8 * MIB
    assert not select.select([], [master], [], 0)[1], "a full terminal must not keep the loop awake"
    queue.discard()
    queue.close()
    os.close(slave)


@pytest.mark.slow
def test_a_terminal_gets_every_byte_c34(folder: Path, terminal: tuple[int, int]):
    """What did not fit at first follows as the program reads."""
    master, slave = terminal
    os.set_blocking(slave, False)
    data = text(300 * KIB)
    queue = StdinQueue(folder, master, terminal=True)
    queue.accept("a", 0, data, False)
    seen, limit = b"", deadline(20)
    while len(seen) < len(data):
        queue.feed()
        select.select([slave], [], [], limit.left())
        seen += read_now(slave)
    assert seen == data
    queue.close()


@pytest.mark.slow
def test_a_long_line_through_a_pipe_is_exact_c35(folder: Path, pipe: tuple[int, int]):
    """6000 characters in pieces of 500: a pipe cuts nothing."""
    script = ["sh", "-c", "IFS= read -r x; echo ${#x}"]
    os.set_blocking(pipe[0], True)
    process = subprocess.Popen(script, stdin=pipe[0], stdout=subprocess.PIPE)
    queue = StdinQueue(folder, pipe[1])
    line = b"a" * 6000 + b"\n"
    for start in range(0, len(line), 500):
        queue.accept("a", start, line[start : start + 500], False)
        assert not queue.feed()
    assert process.communicate(timeout=10)[0] == b"6000\n"
    queue.close()


def test_bytes_move_where_there_is_no_sendfile(folder: Path, pipe: tuple[int, int], monkeypatch):
    """A system that refuses sendfile to this kind of file is served by reading and writing."""

    def refuse(*args: object) -> int:
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "sendfile", refuse)
    queue = StdinQueue(folder, pipe[1])
    data = text(200 * KIB)
    queue.accept("a", 0, data, False)
    assert queue.feed()
    assert queue.unread == 200 * KIB - 64 * KIB
    assert feed_all(queue, pipe[0]) == data
    queue.close()


# A later server


def killed(queue: StdinQueue) -> int:
    """Return the description that the keeper holds of a queue whose server is killed."""
    held = os.dup(queue.feeding_fd) if queue.feeding_fd != -1 else -1
    queue.close()
    return held


def test_a_later_server_goes_on_in_the_middle(folder: Path, pipe: tuple[int, int], monkeypatch):
    """Position, offsets of sessions, and the end are known again; no byte is lost or doubled."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 100 * KIB)
    data = text(350 * KIB)
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, data, False)
    queue.accept("b", 0, b"tail", True)
    pieces = []
    for _ in range(5):
        queue.feed()
        queue = StdinQueue.recover(folder, pipe[1], killed(queue))
        pieces.append(read_now(pipe[0]))
    assert (queue.offset_of("a"), queue.offset_of("b"), queue.ended) == (len(data), 4, True)
    pieces.append(feed_all(queue, pipe[0]))
    assert b"".join(pieces) == data + b"tail"
    queue.close()


def test_bytes_that_were_never_noted_are_cut_off(folder: Path, pipe: tuple[int, int]):
    """What the killed server wrote without a record was not answered: the client sends it again."""
    queue = StdinQueue(folder, pipe[1])
    queue.accept("a", 0, b"noted", False)
    queue.close()
    with (folder / "in.0").open("ab") as file:
        file.write(b"not noted")
    with (folder / "in.idx").open("ab") as file:
        file.write(b"torn record")
    (folder / "in.5").write_bytes(b"of the same write")
    queue = StdinQueue.recover(folder, pipe[1], -1)
    assert queue.offset_of("a") == 5
    queue.accept("a", 5, b" again", False)
    assert feed_all(queue, pipe[0]) == b"noted again"
    queue.close()


def test_a_held_segment_that_was_fed_and_unlinked(folder: Path, pipe: tuple[int, int], monkeypatch):
    """If the kill came between the old segment's end and the new one's hold, the new one is fed whole."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 10)
    queue = StdinQueue(folder, pipe[1], on_segment=lambda fd: not (folder / "in.10").exists())
    queue.accept("a", 0, b"0123456789", False)
    assert not queue.feed()
    held = os.dup(queue.feeding_fd)
    queue.accept("a", 10, b"abc", False)
    assert queue.feed()
    assert segments(folder) == ["in.10"]
    queue.close()
    queue = StdinQueue.recover(folder, pipe[1], held)
    assert queue.feeding_fd == -1
    assert feed_all(queue, pipe[0]) == b"0123456789abc"
    queue.close()


def test_recovery_of_an_input_that_never_was(folder: Path, pipe: tuple[int, int]):
    """Nothing on disk and nothing held is an empty queue; a stray description is closed."""
    queue = StdinQueue.recover(folder, pipe[1], os.dup(pipe[0]))
    assert queue.drained
    assert not folder.exists()
    queue.accept("a", 0, b"x", False)
    assert feed_all(queue, pipe[0]) == b"x"
    queue.close()


def test_a_terminal_recovers_whether_its_line_is_finished(folder: Path, terminal: tuple[int, int]):
    """The last byte stands on disk, so the number of VEOFs is right after a restart too."""
    queue = StdinQueue(folder, terminal[0], terminal=True)
    queue.accept("a", 0, b"unfinished", False)
    queue = StdinQueue.recover(folder, terminal[0], killed(queue), terminal=True)
    queue.accept("a", 10, b"", True)
    assert queue.unread == 12
    queue = StdinQueue.recover(folder, terminal[0], killed(queue), terminal=True)
    queue.accept("b", 0, b"", True)
    assert queue.unread == 13
    queue.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2), st.integers(0, 40), st.integers(0, 90)),
        st.tuples(st.just("feed"), st.just(0), st.just(0), st.integers(1, 60)),
        st.tuples(st.just("kill"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_is_repeated_and_whenever_it_is_killed_each_byte_comes_once(
    steps: list[tuple[str, int, int, int]],
):
    """Sessions that repeat, overlap and jump ahead, fed by pieces, with kills in between."""
    with tempfile.TemporaryDirectory() as name, mock.patch.object(stdin_files, "SEGMENT", 50):
        read, write = os.pipe2(os.O_NONBLOCK)
        queue = StdinQueue(Path(name), write)
        expected, seen, offsets = b"", b"", [0, 0, 0]
        for what, session, back, size in steps:
            if what == "write":
                offset = max(0, offsets[session] + 5 - back)
                data = bytes((session * 80 + position) % 256 for position in range(offset, offset + size))
                if offset > offsets[session]:
                    with pytest.raises(InvalidRequest):
                        queue.accept(str(session), offset, data, False)
                    continue
                new = data[offsets[session] - offset :]
                expected, offsets[session] = expected + new, offsets[session] + len(new)
                assert queue.accept(str(session), offset, data, False) == offsets[session]
            elif what == "feed":
                with mock.patch.object(stdin, "FEED_MOST", size):
                    queue.feed()
            else:
                queue = StdinQueue.recover(Path(name), write, killed(queue))
                assert [queue.offset_of(str(one)) for one in range(3)] == offsets
            seen += read_now(read)
        seen += feed_all(queue, read)
        assert seen == expected
        queue.close()
        os.close(read)
        os.close(write)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_kill_at_any_moment_loses_and_doubles_nothing(folder: Path, pipe: tuple[int, int]):
    """A server that is killed while it accepts and feeds: the reader sees each answered byte exactly once."""
    read, write = pipe
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.set_inheritable(True)
    os.set_inheritable(write, True)
    seen, held, chance = b"", -1, random.Random(7)
    for _ in range(10):
        if held != -1:
            os.set_inheritable(held, True)
        arguments = [str(folder), str(write), str(held), str(theirs.fileno())]
        fds = [write, theirs.fileno()] + ([held] if held != -1 else [])
        victim = subprocess.Popen([*child(VICTIM), *arguments], pass_fds=fds, stdout=subprocess.PIPE)
        assert victim.stdout is not None
        assert victim.stdout.read(1) == b"r"
        stop = time.monotonic() + chance.random() * 0.1
        while time.monotonic() < stop:
            seen += read_now(read)
        victim.send_signal(signal.SIGKILL)
        victim.wait(timeout=10)
        victim.stdout.close()
        held = newest_description(ours, held)
    queue = StdinQueue.recover(folder, write, held)
    seen += feed_all(queue, read)
    expected = b"".join(b"%d\n" % n for n in range(len(seen)))[: queue.offset_of("a")]
    assert len(seen) == queue.offset_of("a") > 1000
    assert seen == expected
    queue.close()
    ours.close()
    theirs.close()


def newest_description(keeper: socket.socket, held: int) -> int:
    """Return the last description that arrived at the keeper's socket; close those before it."""
    keeper.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            _, fds, _, _ = socket.recv_fds(keeper, 1, 1)
            if held != -1:
                os.close(held)
            held = fds[0]
    return held


VICTIM = """
import socket, sys
from pathlib import Path
from execzmq.process.stdin import StdinQueue
folder, (write, held, keeper) = Path(sys.argv[1]), map(int, sys.argv[2:])
sock = socket.socket(fileno=keeper)
lines = b"".join(b"%d\\n" % n for n in range(400_000))
def hold(fd):
    return socket.send_fds(sock, [b"h"], [fd]) == 1
sys.stdout.write("r")
queue = StdinQueue.recover(folder, write, held, on_segment=hold)
sent = queue.offset_of("a")
while True:
    if queue.has_room(999) and sent < len(lines):
        sent = queue.accept("a", sent, lines[sent:sent + 999], False)
    queue.feed()
"""
