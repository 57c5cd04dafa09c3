"""Own one ZeroMQ socket on an asyncio loop; know nothing of what its messages mean.

ZeroMQ's file descriptor is edge-triggered and also swallows edges while one sends (libzmq, `ZMQ_FD`), so a
port drains until `EAGAIN` and looks again after each send.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import zmq
from zmq.backend import Socket as _RawSocket

Frames: TypeAlias = list[zmq.Frame]
T = TypeVar("T")

_LAST = int(zmq.DONTWAIT)
_MORE = int(zmq.DONTWAIT | zmq.SNDMORE)  # as enums they cost more than the sending
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_POLLOUT = int(zmq.POLLOUT)
# The ways of the base class go past enums and options that nothing here uses.
_get: Callable[[zmq.Socket[bytes], int], int] = _RawSocket.get  # type: ignore[assignment]  # of EVENTS
_send: Callable[..., object] = _RawSocket.send
_LISTENER_ENDED = zmq.EVENT_CLOSED | zmq.EVENT_CLOSE_FAILED
_LISTENER_ENDS = 1000
"""Milliseconds for the end of a listener, which takes less than one."""
_TURN = 64
"""Messages handled before other work of the loop gets its turn."""


class ZmqPort:
    """A socket whose messages are handed to a callback.

    Args:
        socket: owned from now on; closed by `close`.
        on_message: called with the frames of each message; must not block. An exception that it raises goes
            to the loop's exception handler and costs only that message.
        turn: most messages handled in a row.
        on_idle: called whenever all messages that were there have been handled; the socket may have found a
            peer, or room, since it was called last.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[Frames], None],
        *,
        turn: int = _TURN,
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        self.socket = socket
        self._on_message = on_message
        self._turn = turn
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._scheduled: asyncio.Handle | None = None
        self._loop.add_reader(self._fd, self._drain)
        self._look_again()

    def send(self, frames: Sequence[bytes | memoryview | zmq.Frame], *, copy: bool = True) -> bool:
        """Send one message without waiting; return False where there is no room or no peer for it.

        Raises:
            zmq.ZMQError: `EHOSTUNREACH` when a mandatory ROUTER has no such peer.
        """
        is_sent = False
        try:
            # Room that has come since the first try is not told any more: asking for `EVENTS` takes the edge.
            is_sent = self._try_send(frames, copy) or (self._has(_POLLOUT) and self._try_send(frames, copy))
            return is_sent
        finally:
            missed = _POLLIN if is_sent or self._on_idle is None else _POLLIN | _POLLOUT
            if self._scheduled is None and self._has(missed):
                self._look_again()

    def bind_again(self, endpoint: str) -> None:
        """Listen anew where the file of an ipc endpoint has gone; the connections that are there stay.

        Raises:
            zmq.ZMQError: it cannot be bound.
        """
        # The old listener is ended by another thread, which removes whatever has the name by then.
        with self.socket.get_monitor_socket(_LISTENER_ENDED) as monitor:
            try:
                with contextlib.suppress(zmq.ZMQError):  # it was not bound the last time
                    self.socket.unbind(endpoint)
                    monitor.poll(_LISTENER_ENDS)
            finally:
                self.socket.disable_monitor()
        self.socket.bind(endpoint)
        self._look_again()

    def bind(self, do: Callable[[zmq.Socket[bytes]], T]) -> T:
        """Bind or unbind the socket by `do`, and look again: each of the two takes the edge."""
        try:
            return do(self.socket)
        finally:
            self._look_again()

    def close(self, linger: float = 0.0) -> None:
        """Stop listening and close the socket; unsent messages have `linger` seconds. Idempotent."""
        if self._fd == -1:
            return
        fd, self._fd = self._fd, -1
        self._loop.remove_reader(fd)
        if self._scheduled is not None:
            self._scheduled.cancel()
        self.socket.close(linger=int(linger * 1000))

    def _try_send(self, frames: Sequence[bytes | memoryview | zmq.Frame], copy: bool) -> bool:
        socket = self.socket
        try:
            for frame in frames[:-1]:
                _send(socket, frame, _MORE, copy)
            _send(socket, frames[-1], _LAST, copy)
        except zmq.Again:
            return False
        return True

    def _look_again(self) -> None:
        if self._scheduled is None and self._fd != -1:
            self._scheduled = self._loop.call_soon(self._drain_scheduled)

    def _drain_scheduled(self) -> None:
        self._scheduled = None
        self._drain()

    def _drain(self) -> None:
        for _ in range(self._turn):
            if self._fd == -1:
                return
            if not self._has(_POLLIN):
                break
            self._deliver(self._receive())
        else:
            self._look_again()
            return
        if self._on_idle is not None:
            self._on_idle()

    def _has(self, event: int) -> bool:
        """Ask the socket; cheaper than the exception of a `recv` in vain."""
        return bool(_get(self.socket, _EVENTS) & event)

    def _receive(self) -> Frames:
        """Return the next message; `recv_multipart` takes twice as long, as it asks the socket for `more`."""
        receive = self.socket.recv
        frame = receive(_LAST, copy=False)
        frames = [frame]
        while frame.more:
            frame = receive(_LAST, copy=False)
            frames.append(frame)
        return frames

    def _deliver(self, frames: Frames) -> None:
        try:
            self._on_message(frames)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "execzmq: a message could not be handled", "exception": error}
            )
