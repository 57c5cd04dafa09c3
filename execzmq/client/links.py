"""Own the ZeroMQ sockets of one client: their options, whether the server is there, and their end.

Knows nothing of requests and events: frames go to callbacks as they come.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import zmq

from execzmq.connection import Channel, ConnectionInfo
from execzmq.errors import ConnectionFailed
from execzmq.protocol.wire import Frame
from execzmq.settings import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, MAX_MESSAGE
from execzmq.zmqloop import Frames, ZmqPort

LinkState: TypeAlias = Literal["up", "down", "refused"]

_RECONNECT_FIRST = 10
_RECONNECT_LAST = {"ipc": 40, "tcp": 200}
"""Milliseconds from one try to the next in the end: a server that is back is found within them.

A try on this machine costs a system call; over a network it is others who pay for it too.
"""
_HANDSHAKE = 3000
_LINGER = 0.2
"""Seconds in which the last words leave: long enough for a request just sent, short for a dead server."""
_BROADCASTS_HELD = 256
"""Broadcasts that wait while the loop is busy: at most 16 MiB; what is dropped is read from the log."""
_MOST_SOCKETS = 16 * 1024
"""Sockets of the process; a client has five, and ZeroMQ's own limit is 1,023."""
_SMALL = 8192
"""Bytes up to which a frame is copied: cheaper than a view that keeps the message alive."""
_MONITORED = struct.Struct("=hi")
"""Number and value of an event of a socket, as libzmq puts them into the first frame."""
_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)  # fmt: skip


class Links:
    """The sockets of one client session; `stdin` is opened when it is first needed.

    Args:
        on_reply: called with the frames of each reply, from the delimiter on.
        on_broadcast: called with the frames of each broadcast, topic first.
        on_state: called when a channel for requests has a connection, has lost it, or was refused for good.
        on_room: called when a request that found no room on a channel may be tried again.

    Raises:
        ConnectionFailed: there are no more sockets or descriptors, or the address is none.
    """

    def __init__(
        self,
        info: ConnectionInfo,
        on_reply: Callable[[list[Frame]], None],
        on_broadcast: Callable[[Frames], None],
        on_state: Callable[[Channel, LinkState], None],
        on_room: Callable[[Channel], None],
    ) -> None:
        self._info = info
        self._on_reply = on_reply
        self._on_state = on_state
        self._on_room = on_room
        self._context = _context()
        self._ports: list[ZmqPort] = []
        self._dealers: dict[Channel, ZmqPort] = {}
        self._is_closed = False
        try:
            self._broadcasts = self._connect("iopub", zmq.SUB, on_broadcast)
            self._dealer("shell")
            self._dealer("control")
        except zmq.ZMQError as error:
            self.close()
            raise ConnectionFailed(f"no socket to {info.endpoint('shell')}: {error}") from None

    def send(self, channel: Channel, frames: Sequence[Frame]) -> bool:
        """Send a request; return False while the channel has no connection or no room."""
        port = self._dealers.get(channel) or self._dealer(channel)
        return port.send(frames)

    def subscribe(self, topic: bytes) -> None:
        """Ask for the broadcasts whose topic begins with `topic`."""
        self._broadcasts.socket.setsockopt(zmq.SUBSCRIBE, topic)

    def unsubscribe(self, topic: bytes) -> None:
        """Take one `subscribe` of that topic back; a closed link has none any more."""
        if not self._is_closed:
            self._broadcasts.socket.setsockopt(zmq.UNSUBSCRIBE, topic)

    async def heart_beats(self, seconds: float) -> bool:
        """Tell whether the server's heart answers within `seconds`; a busy server's does."""
        echo: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_echo(_frames: Frames) -> None:
            if not echo.done():
                echo.set_result(None)

        port = self._connect("hb", zmq.DEALER, on_echo)
        self._ports.remove(port)
        try:
            port.send([b"", b"ping"])
            async with asyncio.timeout(seconds):
                await echo
        except TimeoutError:
            return False
        finally:
            port.close()
        return True

    def close(self) -> None:
        """Close every socket; what was just sent still leaves. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for port in self._dealers.values():
            port.socket.disable_monitor()
        for port in self._ports:
            port.close(_LINGER if port in self._dealers.values() else 0.0)

    def _dealer(self, channel: Channel) -> ZmqPort:
        port = self._open(channel, zmq.DEALER, self._reply, lambda: self._on_room(channel))
        self._dealers[channel] = port
        self._watch(channel, port)
        port.socket.connect(self._info.endpoint(channel))
        return port

    def _reply(self, frames: Frames) -> None:
        self._on_reply(plain(frames))

    def _connect(self, channel: Channel, kind: int, on_message: Callable[[Frames], None]) -> ZmqPort:
        port = self._open(channel, kind, on_message)
        port.socket.connect(self._info.endpoint(channel))
        return port

    def _open(
        self,
        channel: Channel,
        kind: int,
        on_message: Callable[[Frames], None],
        on_idle: Callable[[], None] | None = None,
    ) -> ZmqPort:
        """Make a socket that is not connected yet, as who watches it must do so before."""
        socket = self._context.socket(kind)
        # Every reply answers a request of ours, so what waits here is bounded by what was asked.
        socket.setsockopt(zmq.RCVHWM, _BROADCASTS_HELD if kind == zmq.SUB else 0)
        if channel != "hb":
            socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_FIRST)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LAST[self._info.transport])
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        socket.setsockopt(zmq.HEARTBEAT_IVL, int(HEARTBEAT_INTERVAL * 1000))
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(HEARTBEAT_TIMEOUT * 1000))
        socket.setsockopt(zmq.HEARTBEAT_TTL, int(HEARTBEAT_TIMEOUT * 1000))
        self._secure(socket)
        port = ZmqPort(socket, on_message, on_idle=on_idle)
        self._ports.append(port)
        return port

    def _secure(self, socket: zmq.Socket[bytes]) -> None:
        if self._info.transport == "tcp":
            socket.setsockopt(zmq.IPV6, int(":" in self._info.ip))
            socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        if self._info.curve_serverkey:
            socket.setsockopt(zmq.CURVE_SERVERKEY, self._info.curve_serverkey.encode())
            socket.setsockopt(zmq.CURVE_PUBLICKEY, self._info.curve_publickey.encode())
            socket.setsockopt(zmq.CURVE_SECRETKEY, self._info.curve_secretkey.encode())

    def _watch(self, channel: Channel, port: ZmqPort) -> None:
        monitor = port.socket.get_monitor_socket(_WATCHED)
        self._ports.append(ZmqPort(monitor, lambda frames: self._on_event(channel, frames)))

    def _on_event(self, channel: Channel, frames: Frames) -> None:
        event, _ = _MONITORED.unpack(frames[0].bytes)
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._on_state(channel, "up")
        elif event == zmq.EVENT_DISCONNECTED:
            self._on_state(channel, "down")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._on_state(channel, "refused")


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    """Return the context of this process, which all clients and other users of ZeroMQ share."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    context.set(zmq.MAX_SOCKETS, _MOST_SOCKETS)  # without effect once it has a socket
    return context


def plain(frames: Frames) -> list[Frame]:
    """Return what the codec reads: small frames as bytes, large ones as views that keep the message alive."""
    return [frame.bytes if len(frame) <= _SMALL else frame.buffer for frame in frames]
