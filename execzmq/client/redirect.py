"""Own what a caller's `stdin`, `stdout` and `stderr` come to: descriptors, file objects, its own streams.

A descriptor is duplicated, so that the caller may close its own.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from execzmq import settings
from execzmq.client.arguments import DEVNULL, INHERIT, PIPE, STDOUT, File
from execzmq.client.sinks import FileSink, Null, Sink
from execzmq.client.sources import Descriptor, FileSource
from execzmq.types.events import Stream

READ_SIZE = 256 * settings.KIB
_MOST_PIECES = 1024
"""Buffers that one `writev` takes (`IOV_MAX`)."""


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
    if _has_descriptor(target):
        return _descriptor_sink(target.fileno())  # type: ignore[union-attr]  # just looked at
    if not hasattr(target, "write"):
        raise TypeError(f"neither a descriptor nor a file: {target!r}")
    return _object_sink(target)


def _own_sink(name: Stream) -> Sink:
    stream = getattr(sys, name)
    if stream is None:
        return Null()
    if stream is getattr(sys, f"__{name}__") and _has_descriptor(stream):
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
    if _has_descriptor(target):
        return _descriptor_source(target.fileno())  # type: ignore[union-attr]  # just looked at
    if not hasattr(target, "read"):
        raise TypeError(f"neither a descriptor nor a file: {target!r}")
    return FileSource(_object_reader(target), lambda: None, lambda: None)


def write_all(fd: int, pieces: list[bytes]) -> None:
    """Write all of `pieces`, also to a descriptor that somebody has made non-blocking."""
    rest = deque(memoryview(piece) for piece in pieces)
    while rest:
        try:
            written = os.writev(fd, list(islice(rest, _MOST_PIECES)))
        except BlockingIOError:
            select.select((), (fd,), ())
            continue
        while rest and written >= len(rest[0]):
            written -= len(rest.popleft())
        if written:
            rest[0] = rest[0][written:]


def _descriptor_sink(fd: int) -> FileSink:
    own = os.dup(fd)
    return FileSink(partial(write_all, own), partial(os.close, own))


def _descriptor_source(fd: int) -> FileSource:
    own = os.dup(fd)
    source = Descriptor(own)
    wake_read, wake_write = os.pipe()

    def read() -> bytes:
        # A terminal or another's pipe may stay silent for ever, and the command may be over meanwhile.
        poll = select.poll()
        poll.register(own, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        if any(ready == wake_read for ready, _ in poll.poll()):
            return b""
        return source.read()

    def close() -> None:
        for descriptor in (own, wake_read, wake_write):
            os.close(descriptor)

    return FileSource(read, partial(os.write, wake_write, b"x"), close)


def _object_sink(target: Any) -> FileSink:
    if not isinstance(target, io.TextIOBase):
        return FileSink(lambda pieces: _write_and_flush(target, b"".join(pieces)), lambda: None)
    target.flush()
    binary = getattr(target, "buffer", None)
    if binary is not None:
        return FileSink(lambda pieces: _write_and_flush(binary, b"".join(pieces)), lambda: None)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return FileSink(
        lambda pieces: _write_and_flush(target, decoder.decode(b"".join(pieces))),
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


def _has_descriptor(target: object) -> bool:
    """Tell whether an object given as a stream stands for a descriptor of this process."""
    fileno = getattr(target, "fileno", None)
    if fileno is None:
        return False
    try:
        return isinstance(fileno(), int)
    except (OSError, ValueError, io.UnsupportedOperation):
        return False
