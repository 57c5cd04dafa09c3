"""A client made by hand: frames to a server's sockets and back, right or wrong."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from execzmq.connection import Channel, ConnectionInfo
from execzmq.protocol.methods import METHODS
from execzmq.protocol.wire import Codec, Frame, Message, split
from tests.support import TIMESCALE

SECONDS = 10.0


class RawClient:
    """A DEALER for each socket that is used; `codec` signs with the connection's key.

    With `most_received` it takes no more than so many messages that nobody has received.
    """

    def __init__(self, info: ConnectionInfo, identity: bytes = b"", most_received: int = 1000) -> None:
        self.info = info
        self.codec = Codec(info.key.encode(), "raw-session")
        self._identity = identity
        self._most_received = most_received
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}

    def send(self, frames: Sequence[Frame], channel: Channel = "shell") -> None:
        """Send frames as they are."""
        self._socket(channel).send_multipart(list(frames))

    def receive(self, channel: Channel = "shell", seconds: float = SECONDS) -> Message:
        """Return the next message.

        Raises:
            TimeoutError: none comes.
        """
        socket = self._socket(channel)
        if not socket.poll(int(seconds * TIMESCALE * 1000)):
            raise TimeoutError("no answer")
        _, frames = split(socket.recv_multipart())
        return self.codec.decode(frames)

    def ask(self, method: str, content: dict[str, Any] | None = None, **more: Any) -> Message:
        """Send a request and return its reply."""
        channel = METHODS[method].socket
        self.send(self.codec.encode(f"{method}_request", content or {}, **more), channel)
        return self.receive(channel)

    def close(self) -> None:
        """Close everything at once, whatever is on its way; idempotent."""
        self._context.destroy(linger=0)

    def _socket(self, channel: Channel) -> "zmq.Socket[bytes]":
        if channel not in self._sockets:
            socket = self._sockets[channel] = self._context.socket(zmq.DEALER)
            if self._identity:
                socket.setsockopt(zmq.ROUTING_ID, self._identity)
            socket.setsockopt(zmq.RCVHWM, self._most_received)
            secure(socket, self.info)
            socket.connect(self.info.endpoint(channel))
        return self._sockets[channel]


def secure(socket: "zmq.Socket[bytes]", info: ConnectionInfo) -> None:
    """Speak CURVE with the keys of a file, if it has some."""
    if info.curve_serverkey:
        socket.curve_serverkey = info.curve_serverkey.encode()
        socket.curve_publickey = info.curve_publickey.encode()
        socket.curve_secretkey = info.curve_secretkey.encode()


@contextlib.contextmanager
def raw(info: ConnectionInfo, identity: bytes = b"", most_received: int = 1000) -> Iterator[RawClient]:
    """Be such a client meanwhile."""
    client = RawClient(info, identity, most_received)
    try:
        yield client
    finally:
        client.close()


def start_content(info: ConnectionInfo, *argv: str, **more: Any) -> dict[str, Any]:
    """Return the content of a `start` request."""
    return {
        "epoch": info.epoch,
        "argv": [word.encode() for word in argv],
        "stdin": "null",
        "merge_stderr": False,
        "timeout_grace": 0.0,
        "lifetime": "server",
        "backpressure": "spill",
        **more,
    }
