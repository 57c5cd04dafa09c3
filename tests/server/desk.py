"""A dispatcher without sockets: what comes in is given to it, what goes out is kept."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import zmq

from execzmq.errors import ExecZMQError
from execzmq.protocol.methods import METHODS
from execzmq.protocol.peers import Answers, Sessions
from execzmq.protocol.wire import Codec, Frame, Message, split
from execzmq.server.dispatch import Dispatcher, Handler, Reply

KEY = b"the key"
EPOCH = "e1"
ROUTING = b"client"


class FakeFrame:
    """A frame as libzmq hands it over, of a connection that ZAP let in as `user`."""

    def __init__(self, data: Frame, user: str | None) -> None:
        self.bytes = bytes(data)
        self.buffer = memoryview(self.bytes)
        self._user = user

    def __len__(self) -> int:
        return len(self.bytes)

    def get(self, name: str) -> str:
        """Return the property that ZAP has set, as a frame of libzmq does."""
        assert name == "User-Id"
        if self._user is None:
            raise zmq.ZMQError(zmq.EINVAL)
        return self._user


class Desk:
    """A dispatcher and the one client that speaks to it, on a clock that the test moves.

    Args:
        handlers: those that the test needs.

    Attributes:
        sent: socket, routing and message of all that went out.
    """

    def __init__(self, handlers: dict[str, Handler], sessions: Sessions | None = None) -> None:
        self.now = 1000.0
        self.sent: list[tuple[str, list[Any], Message]] = []
        self._news = asyncio.Event()
        self.codec = Codec(KEY, "client-1")
        self.sessions = Sessions() if sessions is None else sessions
        self.answers: Answers[Reply | ExecZMQError] = Answers()
        self.dispatcher = Dispatcher(
            Codec(KEY, EPOCH), EPOCH, handlers, self.answers, self.sessions, self._send, lambda: self.now
        )

    def ask(
        self,
        method: str,
        content: dict[str, Any] | None = None,
        *,
        socket: str | None = None,
        user: str | None = "owner",
        session: str = "client-1",
        msg_id: str | None = None,
        msg_type: str | None = None,
        buffers: Sequence[bytes] = (),
        routing: bytes = ROUTING,
    ) -> str:
        """Send a request over the socket that its method belongs to; return its id."""
        self.codec.session = session
        msg_id = msg_id or self.codec.next_id()
        frames = self.codec.encode(
            msg_type or f"{method}_request", content or {}, msg_id=msg_id, buffers=buffers
        )
        self.give([routing, *frames], socket or METHODS[method].socket, user)
        return msg_id

    def give(self, frames: Sequence[Frame], socket: str = "shell", user: str | None = "owner") -> None:
        """Hand over any frames."""
        self.dispatcher.handle(socket, cast(Any, [FakeFrame(frame, user) for frame in frames]))

    def answer(self) -> Message:
        """Return the one message that went out since the last call."""
        ((_, routing, message),) = self.sent
        assert routing == [ROUTING]
        self.sent.clear()
        return message

    def error(self) -> str:
        """Return the name of the one error that went out since the last call."""
        message = self.answer()
        assert message.content["status"] == "error"
        return str(message.content["ename"])

    async def replied(self) -> None:
        """Wait until something has gone out since the last call of `answer`."""
        while not self.sent:
            self._news.clear()
            await self._news.wait()

    async def settled(self) -> None:
        """Let the handlers that take time come to their end."""
        while self.dispatcher._tasks:
            await asyncio.wait(set(self.dispatcher._tasks))

    def _send(self, socket: str, frames: list[Any]) -> None:
        routing, rest = split(frames)
        self.sent.append((socket, routing, self.codec.decode(rest)))
        self._news.set()
