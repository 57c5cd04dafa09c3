"""Own where output goes to and input comes from in the caller: memory, descriptors, file objects.

A descriptor is duplicated, so that the caller may close its own. Blocking reads and writes are a thread's.
Knows nothing of processes.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from execzmq import settings
from execzmq.client.arguments import DEVNULL, INHERIT, PIPE, STDOUT, File
from execzmq.client.plan import has_descriptor
from execzmq.client.worker import Worker
from execzmq.types.events import Stream

MOST_WAITING = 1 * settings.MIB
"""Bytes that may wait for a slow file before the copying pauses."""
READ_SIZE = 256 * settings.KIB


class Sink(Protocol):
    """Where the bytes of a stream go."""

    async def write(self, data: bytes) -> None:
        """Take `data`; wait while too much is on its way.

        Raises:
            OSError: the file cannot be written. Cancelling loses nothing that was taken before.
        """

    async def finish(self) -> None:
        """Wait until everything is written; raises as `write`."""

    def close(self) -> None:
        """Release what is held, after what is on its way; waits for nothing. Idempotent."""


class Source(Protocol):
    """Where the bytes of stdin come from."""

    async def read(self) -> bytes:
        """Return the next bytes, none at the end.

        Raises:
            OSError: the file cannot be read.
        """

    def close(self) -> None:
        """Stop reading and release what is held; idempotent."""


class Null:
    """Drops everything."""

    async def write(self, data: bytes) -> None:
        """Drop `data`."""

    async def finish(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Capture:
    """Keeps everything in memory, or the first and the newest half of `limit` bytes (`None` = no limit)."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._head = io.BytesIO()  # grows in place and hands its bytes over without a copy
        self._head_room = 0 if limit is None else limit - limit // 2
        self._tail: deque[bytes] = deque()
        self._tail_room = 0 if limit is None else limit // 2
        self._tail_size = 0
        self._dropped = 0

    @property
    def omitted(self) -> int:
        """Bytes that `value` is without."""
        return self._dropped + max(self._tail_size - self._tail_room, 0)

    async def write(self, data: bytes) -> None:
        """Keep `data`."""
        if self._limit is None:
            self._head.write(data)
            return
        if self._head_room:
            self._head.write(data[: self._head_room])
            data, self._head_room = data[self._head_room :], max(self._head_room - len(data), 0)
        if data:
            self._keep_newest(data)

    async def finish(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def value(self) -> bytes:
        """Return what is kept; a mark says what is missing."""
        if not self._tail_size and not self._dropped:
            return self._head.getvalue()
        mark = b"\n[... %d bytes omitted ...]\n" % self.omitted if self.omitted else b""
        tail = b"".join(self._tail)
        return b"".join((self._head.getvalue(), mark, tail[max(len(tail) - self._tail_room, 0) :]))

    def _keep_newest(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            oldest = len(self._tail.popleft())
            self._tail_size -= oldest
            self._dropped += oldest


class FileSink:
    """Writes to something that may block, on a thread; what arrives meanwhile is written in one piece.

    Args:
        write: writes all of what it is given; on the thread.
        close: releases the file; on the thread, or at once where nothing was written.
        complete: writes what `write` has kept back (half a character); on the thread.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        complete: Callable[[], None] | None = None,
    ) -> None:
        self._write = write
        self._release = close
        self._complete = complete
        self._worker = Worker("execzmq-writer")
        self._waiting: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """Hand `data` to the thread; wait while more than `MOST_WAITING` bytes are on their way."""
        if self._task is None or self._task.done():
            await self._catch_up()
            self._waiting.append(data)
            self._task = asyncio.create_task(self._copy())
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MOST_WAITING:
            await self._catch_up()

    async def finish(self) -> None:
        """Wait until all is written."""
        await self._catch_up()
        if self._complete is not None:
            await self._worker.run(self._complete)

    async def _catch_up(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))  # cancelling the waiter does not stop the copying
            self._task.result()

    def close(self) -> None:
        """Close the file after what is being written."""
        if self._task is not None and not self._task.cancel() and not self._task.cancelled():
            self._task.exception()  # told by `finish`, or of no interest any more
        self._worker.close(self._release)

    async def _copy(self) -> None:
        while self._waiting:
            piece = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            await self._worker.run(partial(self._write, piece))


class FileSource:
    """Reads from something that may block, on a thread.

    Args:
        read: returns the next bytes, none at the end; on the thread.
        interrupt: makes a `read` under way return early.
        close: releases the file; on the thread, or at once where nothing was read.
    """

    def __init__(
        self, read: Callable[[], bytes], interrupt: Callable[[], object], close: Callable[[], None]
    ) -> None:
        self._closed = False
        self._read = read
        self._interrupt = interrupt
        self._release = close
        self._worker = Worker("execzmq-reader")

    async def read(self) -> bytes:
        """Return the next bytes, none at the end. Cancelling may lose the bytes that were being read.

        Raises:
            OSError: the file cannot be read.
        """
        return await self._worker.run(self._read)

    def close(self) -> None:
        """Stop reading and release the file; idempotent."""
        if not self._closed:
            self._closed = True
            self._interrupt()
            self._worker.close(self._release)


def open_outputs(stdout: File, stderr: File, open_pipe: Callable[[Stream], Sink]) -> dict[Stream, Sink]:
    """Return a sink for each stream; two streams that go to one file share one, so that their order holds.

    Raises:
        OSError: a descriptor is not open. TypeError: something is neither a descriptor nor writable.
    """
    sinks: dict[Stream, Sink] = {"stdout": _open_sink("stdout", stdout, open_pipe)}
    is_one_file = stderr is stdout or (isinstance(stderr, int) and stderr >= 0 and stderr == stdout)
    if stderr == STDOUT or (is_one_file and stderr not in (PIPE, INHERIT)):
        return {**sinks, "stderr": sinks["stdout"]}
    try:
        sinks["stderr"] = _open_sink("stderr", stderr, open_pipe)
    except BaseException:
        sinks["stdout"].close()
        raise
    return sinks


def _open_sink(stream: Stream, target: File, open_pipe: Callable[[Stream], Sink]) -> Sink:
    if target == PIPE:
        return open_pipe(stream)
    if target == DEVNULL:
        return Null()
    if target == INHERIT:
        return _own_sink(stream)
    if isinstance(target, int):
        return _descriptor_sink(target)
    if has_descriptor(target):
        return _descriptor_sink(target.fileno())  # type: ignore[union-attr]  # just looked at
    if not hasattr(target, "write"):
        raise TypeError(f"neither a descriptor nor a file: {target!r}")
    return _object_sink(target)


def _own_sink(name: Stream) -> Sink:
    stream = getattr(sys, name)
    if stream is None:
        return Null()
    if stream is getattr(sys, f"__{name}__") and has_descriptor(stream):
        stream.flush()  # what was printed before comes first
        return _descriptor_sink(stream.fileno())
    return _object_sink(stream)  # a notebook's, or what a test has put there


def open_source(target: File) -> FileSource:
    """Return the source for what a caller gave as `stdin`.

    Raises:
        OSError: the descriptor is not open. TypeError: it is neither a descriptor nor readable.
    """
    if target == INHERIT:
        return _descriptor_source(0)
    if isinstance(target, int):
        return _descriptor_source(target)
    if has_descriptor(target):
        return _descriptor_source(target.fileno())  # type: ignore[union-attr]  # just looked at
    if not hasattr(target, "read"):
        raise TypeError(f"neither a descriptor nor a file: {target!r}")
    return FileSource(_object_reader(target), lambda: None, lambda: None)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, also to a descriptor that somebody has made non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select((), (fd,), ())


def _descriptor_sink(fd: int) -> FileSink:
    own = os.dup(fd)
    return FileSink(partial(write_all, own), partial(os.close, own))


def _descriptor_source(fd: int) -> FileSource:
    own = os.dup(fd)
    wake_read, wake_write = os.pipe()

    def read() -> bytes:
        # A terminal or another's pipe may stay silent for ever, and the command may be over meanwhile.
        poll = select.poll()
        poll.register(own, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        if any(ready == wake_read for ready, _ in poll.poll()):
            return b""
        return os.read(own, READ_SIZE)

    def close() -> None:
        for descriptor in (own, wake_read, wake_write):
            os.close(descriptor)

    return FileSource(read, partial(os.write, wake_write, b"x"), close)


def _object_sink(target: Any) -> FileSink:
    if not isinstance(target, io.TextIOBase):
        return FileSink(partial(_write_and_flush, target), lambda: None)
    target.flush()
    binary = getattr(target, "buffer", None)
    if binary is not None:
        return FileSink(partial(_write_and_flush, binary), lambda: None)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return FileSink(
        lambda data: _write_and_flush(target, decoder.decode(data)),
        lambda: None,
        lambda: _write_and_flush(target, decoder.decode(b"", final=True)),
    )


def _write_and_flush(target: Any, data: bytes | str) -> None:
    target.write(data)
    if hasattr(target, "flush"):
        target.flush()


def _object_reader(target: Any) -> Callable[[], bytes]:
    def read() -> bytes:
        data = target.read(READ_SIZE)
        return data.encode() if isinstance(data, str) else bytes(data)

    return read
