"""Own the reading ends of one process: when bytes move from a pipe or terminal into its log.

The gather rule: bytes that come after a silence of `GATHER_TIME` are an event at once; what comes sooner
waits until `GATHER_TIME` is over, `MAX_EVENT` is reached, the other stream speaks, or the command exits. A
stream that dribbles is not listened to while it waits, so that it costs one wake-up per event and not per
write.
What the disk does not take is taken into memory, so that no writer waits for it.
Knows nothing of seqs, results or who watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from execzmq.keeper import terminal
from execzmq.process.logfile import FileLost
from execzmq.process.readers import Readers
from execzmq.settings import GATHER_TIME, MAX_EVENT
from execzmq.types.events import Stream

if TYPE_CHECKING:
    from execzmq.process.log import OutputLog

_DRIBBLE = 16 * 1024
_PIPE_CAPACITY = 64 * 1024
log = logging.getLogger("execzmq.process")
_WIDE_PIPE = 1024 * 1024
_WIDE_PIPES = 16
"""Pipes that may be wide at once: the system allows a user 64 MiB in all."""


class Source(Protocol):
    """Where the bytes of a stream come from."""

    fd: int

    def move(self, log: OutputLog, stream: Stream, limit: int) -> int:
        """Move at most `limit` bytes into the log; 0 at the end.

        Raises:
            BlockingIOError: nothing is there now.
        """

    def discard(self) -> int:
        """Read and drop what is there; 0 at the end. Raises BlockingIOError like `move`."""

    def descriptors(self, stream: Stream) -> dict[str, int]:
        """Return what is open by the names that a keeper gives it."""

    def widen(self) -> None:
        """Let more wait between two looks, since the writer is fast; no effect where that cannot be had."""

    def close(self) -> None:
        """Close the descriptors; idempotent."""


class PipeSource:
    """The reading end of a pipe."""

    wide_pipes: ClassVar[int] = 0

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._is_wide = False

    def move(self, log: OutputLog, stream: Stream, limit: int) -> int:
        """Splice from the pipe into the log's data file."""
        return log.splice(stream, self.fd, limit)

    def discard(self) -> int:
        """Read and drop one pipe's worth."""
        return len(os.read(self.fd, _PIPE_CAPACITY))

    def descriptors(self, stream: Stream) -> dict[str, int]:
        """Name the pipe after its stream."""
        return {stream: self.fd} if self.fd != -1 else {}

    def widen(self) -> None:
        """Make the pipe hold 1 MiB: a quarter of the wake-ups for the same bytes."""
        if self._is_wide or PipeSource.wide_pipes >= _WIDE_PIPES:
            return
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)
            self._is_wide = True
            PipeSource.wide_pipes += 1

    def close(self) -> None:
        """Close the pipe; idempotent."""
        fd, self.fd = self.fd, -1
        if fd != -1:
            os.close(fd)
            PipeSource.wide_pipes -= self._is_wide


class TerminalSource:
    """The master of a terminal, read through a pipe, since a terminal cannot be spliced into a file.

    The keeper holds the pipe too, so no byte is ever only in this process.
    """

    def __init__(self, master: int, pipe_read: int, pipe_write: int) -> None:
        self.fd = master
        self._pipe = PipeSource(pipe_read)
        self._pipe_write = pipe_write

    def move(self, log: OutputLog, stream: Stream, limit: int) -> int:
        """Move what is there; the end of a terminal is EIO on Linux."""
        ended = False
        with contextlib.suppress(BlockingIOError):
            size = min(limit, _PIPE_CAPACITY)
            ended = terminal.fill(self.fd, self._pipe.fd, self._pipe_write, size) == 0
        try:
            return self._pipe.move(log, stream, limit)
        except BlockingIOError:
            if ended:
                return 0
            raise

    def descriptors(self, stream: Stream) -> dict[str, int]:
        """Name the terminal and both ends of the pipe."""
        if self.fd == -1:
            return {}
        return {"pty": self.fd, "mid_r": self._pipe.fd, "mid_w": self._pipe_write}

    def widen(self) -> None:
        """Leave it as it is: the kernel's buffer of a terminal has one size."""

    def discard(self) -> int:
        """Read and drop what the terminal has."""
        return len(terminal.read(self.fd, _PIPE_CAPACITY))

    def close(self) -> None:
        """Close the terminal and the pipe; idempotent."""
        self._pipe.close()
        master, self.fd = self.fd, -1
        writer, self._pipe_write = self._pipe_write, -1
        for fd in (master, writer):
            if fd != -1:
                os.close(fd)


class StreamPump:
    """Moves one stream of a process into its log, by the gather rule.

    Args:
        source: owned from now on.
        before: called before bytes are taken, so that those of the other stream become an event first.
        commit: called when the pending bytes of this stream are to become an event.
        ended: called once, at the end of the stream, when nothing is pending any more.
        refused: called when the disk takes nothing; the log holds the output in memory when it returns.
        clock: seconds of a clock that never steps.
        readers: shared with the other streams of the loop.
    """

    def __init__(
        self,
        stream: Stream,
        source: Source,
        log: OutputLog,
        *,
        before: Callable[[Stream], None],
        commit: Callable[[Stream], None],
        ended: Callable[[Stream], None],
        refused: Callable[[OSError], None],
        clock: Callable[[], float],
        readers: Readers,
    ) -> None:
        self.stream = stream
        self.discarded = 0
        self._source = source
        self._log = log
        self._before = before
        self._commit = commit
        self._ended = ended
        self._refused = refused
        self._clock = clock
        self._readers = readers
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._listening = False
        self._paused = False
        self._discarding = False

    @property
    def is_open(self) -> bool:
        """Tell whether the stream has not ended."""
        return self._source.fd != -1

    @property
    def is_paused(self) -> bool:
        """Tell whether the writer is made to wait."""
        return self._paused

    @property
    def fd(self) -> int:
        """Return the descriptor that is read, -1 after the end."""
        return self._source.fd

    def descriptors(self) -> dict[str, int]:
        """Return what is open by the names that a keeper gives it; they stay this pump's."""
        return self._source.descriptors(self.stream)

    def start(self) -> None:
        """Begin to listen."""
        self._listen()

    def pause(self) -> None:
        """Let the writer wait; what is pending still becomes an event."""
        self._paused = True
        self._deafen()

    def resume(self) -> None:
        """Go on after `pause`; no effect otherwise."""
        self._paused = False
        if self._timer is None:
            self._listen()

    def discard(self) -> None:
        """From now on read and drop, counted in `discarded`, so that no writer dies of a closed pipe."""
        self._discarding = True
        self.resume()

    def flush(self) -> None:
        """Make an event of what is pending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if not self._paused:
                self._listen()
        if self._log.pending(self.stream):
            self._commit(self.stream)

    def drain(self) -> None:
        """Take what is in the pipe now, at most its capacity, and make events of it.

        Done before the exit is recorded, so that what the command wrote before it ended comes before its end.
        """
        has_ended = self.is_open and self._take_all()
        self.flush()
        if has_ended:
            self._end()

    def _take_all(self) -> bool:
        """Take what is there, at most a pipe's capacity; return whether the stream has ended."""
        left = self._capacity()
        while left > 0:
            try:
                moved = self._move(left)
            except BlockingIOError:
                return False
            if moved == 0:
                return True
            left -= moved
            if not self._log.room(self.stream):
                self._commit(self.stream)
        return False

    def close(self) -> None:
        """Stop listening and close the descriptors; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deafen()
        self._source.close()

    def _capacity(self) -> int:
        try:
            return fcntl.fcntl(self._source.fd, fcntl.F_GETPIPE_SZ)
        except (OSError, AttributeError):
            return _PIPE_CAPACITY

    def _listen(self) -> None:
        if not self._listening and not self._paused and self._source.fd != -1:
            self._readers.add(self._source.fd, self._readable)
            self._listening = True

    def _deafen(self) -> None:
        if self._listening:
            self._readers.remove(self._source.fd)
            self._listening = False

    def _move(self, limit: int = MAX_EVENT) -> int:
        """Take what is there and still fits into one event: into memory where the disk does not take it.

        A stream that cannot be read at all is at its end.
        """
        self._before(self.stream)
        if not self._log.room(self.stream):
            self.flush()
        try:
            return self._source.move(self._log, self.stream, min(limit, self._log.room(self.stream)))
        except BlockingIOError:
            raise
        except FileLost as error:
            log.warning("%s", str(error))
            self.flush()
            self._log.store.note_losses()
        except OSError as error:
            if self._log.store.trouble is not None:
                log.error("a stream of a command cannot be read: %s", error)
                return 0
            self.flush()
            self._refused(error)
        return self._move(limit)

    def _readable(self) -> None:
        if not self._listening or not self._readers.has_room_for(self._readable):
            return
        try:
            if self._discarding:
                self._drop()
                return
            moved = self._move()
            self._readers.took(moved)
            if moved == 0:
                self._end()
            else:
                self._gather(moved)
        except BlockingIOError:
            return

    def _gather(self, moved: int) -> None:
        now = self._clock()
        quiet, self._last = now - self._last, now
        is_full = not self._log.room(self.stream)
        if is_full:
            self._source.widen()
        if is_full or (self._timer is None and quiet >= GATHER_TIME):
            self._commit(self.stream)
            return
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_TIME, self._time_over)
        if moved < _DRIBBLE:
            self._deafen()

    def _time_over(self) -> None:
        """Take what came during the wait, make the event, listen again."""
        self._timer = None
        has_ended = self._take_late() == 0
        self._last = self._clock()
        if self._log.pending(self.stream):
            self._commit(self.stream)
        if has_ended:
            self._end()
        else:
            self._listen()

    def _take_late(self) -> int:
        """Return the bytes that came during a wait, -1 where there are none now."""
        if self._paused or self._discarding or not self._log.room(self.stream):
            return -1
        with contextlib.suppress(BlockingIOError):
            return self._move()
        return -1

    def _drop(self) -> None:
        try:
            dropped = self._source.discard()
        except BlockingIOError:
            return
        self.discarded += dropped
        if dropped == 0:
            self._end()

    def _end(self) -> None:
        self.flush()
        self.close()
        self._ended(self.stream)
