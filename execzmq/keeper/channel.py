"""One end of the keeper's socket: packets with descriptors, never blocking, none lost.

Owns its socket and what waits to be sent. It must not know what a message says. A body over 100 kB travels
in a memfd, since a packet ends at the size of the socket's buffer.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

MAX_INLINE_BYTES = 100_000
MAX_BODY_BYTES = 64 << 20
MAX_DESCRIPTORS = 253
_RECEIVE_BYTES = 1 << 18
_DESCRIPTOR_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_DESCRIPTORS * _DESCRIPTOR_BYTES)
# As plain numbers: to combine enum members costs more than to receive.
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)
_CUT = int(socket.MSG_CTRUNC | socket.MSG_TRUNC)
_MEMFD_START = b'{"memfd":'


class Packet(NamedTuple):
    """A received body and its descriptors, now the receiver's; `cut` tells that some of them are missing."""

    body: bytes
    fds: list[int]
    cut: bool


class Waiting(NamedTuple):
    """A packet to send later: built when its turn comes, so that it speaks of descriptors still open then."""

    build: Callable[[], tuple[bytes, Sequence[int]]]
    owned: tuple[int, ...]


class Channel:
    """Send and receive packets on a non-blocking SOCK_SEQPACKET socket, which it owns.

    Attributes:
        must_flush: True while packets wait for room.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.must_flush = False
        self._waiting: deque[Waiting] = deque()
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 once closed."""
        return self._sock.fileno()

    def try_send(self, body: bytes, fds: Sequence[int] = ()) -> bool:
        """Send now; False if the socket has no room or others wait already.

        Raises:
            OSError: the connection has ended.
        """
        return not self._waiting and self._transmit(body, fds)

    def send_later(self, build: Callable[[], tuple[bytes, Sequence[int]]], owned: Sequence[int] = ()) -> None:
        """Put a packet into the queue; `owned` descriptors are closed when it has been sent or dropped."""
        self._waiting.append(Waiting(build, tuple(owned)))
        self.must_flush = True

    def flush(self) -> bool:
        """Send what waits until the socket has no room; True if nothing waits any more.

        Raises:
            OSError: the connection has ended.
        """
        while self._waiting:
            if not self._transmit(*self._waiting[0].build()):
                return False
            _close_all(self._waiting.popleft().owned)
        self.must_flush = False
        return True

    def receive(self) -> Packet | None:
        """Take the next packet; None if there is none now.

        Raises:
            EOFError: the other end has closed.
            OSError: the connection is broken.
        """
        try:
            size, ancillary, flags, _ = self._sock.recvmsg_into(
                [self._buffer], _ANCILLARY_BYTES, _CLOSE_ON_EXEC
            )
        except BlockingIOError:
            return None
        fds = _descriptors(ancillary) if ancillary else []
        if size == 0 and not fds:
            raise EOFError
        packet = Packet(bytes(self._buffer[:size]), fds, flags & _CUT != 0)
        return _open_memfd(packet) if fds and packet.body.startswith(_MEMFD_START) else packet

    def close(self) -> None:
        """Close the socket and drop what waits."""
        self._sock.close()
        while self._waiting:
            _close_all(self._waiting.popleft().owned)

    def _transmit(self, body: bytes, fds: Sequence[int]) -> bool:
        if len(body) > MAX_INLINE_BYTES:
            return self._transmit_in_memfd(body, fds)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._sock.sendmsg([body], rights, _NO_SIGNAL)
        except OSError as exc:
            # Too many descriptors in flight: they count per user, and room comes when the other end has
            # taken some.
            if exc.errno in (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS):
                return False
            raise
        return True

    def _transmit_in_memfd(self, body: bytes, fds: Sequence[int]) -> bool:
        memfd = _memfd_with(body)
        try:
            return self._transmit(_pointer_to(body), [memfd, *fds])
        finally:
            os.close(memfd)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
    return fds.tolist()


def _memfd_with(body: bytes) -> int:
    memfd = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(memfd, view) :]
    except BaseException:
        os.close(memfd)
        raise
    return memfd


def _pointer_to(body: bytes) -> bytes:
    """Write what stands for a body in a memfd: its size, and its names, to answer it if the memfd is lost."""
    names = {}
    with contextlib.suppress(ValueError, TypeError):
        message = json.loads(body)
        names = {name: message[name] for name in ("op", "id") if name in message}
    return json.dumps({"memfd": len(body), **names}, separators=(",", ":")).encode("ascii")


def _open_memfd(packet: Packet) -> Packet:
    """Replace a packet that only points at its body by the body."""
    memfd, *fds = packet.fds
    try:
        size = json.loads(packet.body)["memfd"]
        body = _read_whole(memfd, min(size, MAX_BODY_BYTES))
    finally:
        os.close(memfd)
    return Packet(body, fds, packet.cut)


def _read_whole(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    offset = 0
    while offset < size:
        part = os.pread(fd, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
