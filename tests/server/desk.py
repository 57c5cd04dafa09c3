"""A dispatcher without sockets: what comes in is given to it, what goes out is kept."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import zmq

from execzmq.connection import share_id_of
from execzmq.errors import ExecZMQError
from execzmq.protocol.methods import METHODS
from execzmq.protocol.peers import Answers, Sessions
from execzmq.protocol.wire import Codec, Frame, Message, split
from execzmq.server.access import OWNER, Peer
from execzmq.server.dispatch import Dispatcher, Handler, Reply
from execzmq.server.guard import Guard
from execzmq.server.lines import Lines
from execzmq.server.network import Network
from execzmq.server.shares import ShareBook
from execzmq.types.sharing import ShareInfo, ShareTerms

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

    def get(self, name: str | int) -> str:
        """Return the property that ZAP has set, as a frame of libzmq does; no connection is known."""
        if self._user is None or name != "User-Id":
            raise zmq.ZMQError(zmq.EINVAL)
        return self._user


class Recorded:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str]] = []
        self.requests: list[tuple[str, str, str, str]] = []

    def begun(self, peer: Peer, session: str) -> None:
        """Note a session."""
        self.sessions.append((peer.user_id, session))

    def done(self, peer: Peer, name: str, process_id: str, session: str, ename: str) -> None:
        """Note a request."""
        self.requests.append((peer.user_id, name, process_id, ename))


class FakeSharing:
    """Keeps shares in a book alone; nobody listens."""

    def __init__(self) -> None:
        self.book = ShareBook()

    def create(self, terms: ShareTerms, publickey: str, peer: Peer) -> tuple[ShareInfo, Network, str]:
        """Make a share."""
        made = ShareInfo(
            share_id_of(publickey), terms.role, terms.processes, 1.0, 2e9, terms.sandbox, publickey
        )
        self.book.add(made)
        return made, Network("192.0.2.7", (1, 2, 3, 4, 5)), "s" * 40

    def revoke(self, share_id: str, peer: Peer) -> None:
        """Take one back."""
        self.book.remove(share_id)


class Desk:
    """A dispatcher and the one client that speaks to it, on a clock that the test moves.

    Args:
        handlers: those that the test needs.
        book: the shares; none by default.

    Attributes:
        sent: socket, routing and message of all that went out.
    """

    def __init__(
        self,
        handlers: dict[str, Handler],
        sessions: Sessions | None = None,
        book: ShareBook | None = None,
    ) -> None:
        self.now = 1000.0
        self.sent: list[tuple[str, list[Any], Message]] = []
        self._news = asyncio.Event()
        self.codec = Codec(KEY, "client-1")
        self._unsigned = Codec(b"", "client-1")
        self.sessions = Sessions() if sessions is None else sessions
        self.book = ShareBook() if book is None else book
        self.recorded = Recorded()
        guard = Guard(KEY, EPOCH, self.book, Lines(), lambda: self.now)
        self.dispatcher = Dispatcher(
            guard, EPOCH, handlers, self.sessions, self._send, lambda: self.now, self.recorded
        )

    @property
    def answers(self) -> Answers[Reply | ExecZMQError]:
        """Return the answers that are kept for owners."""
        return self.dispatcher._pending.answers_of(OWNER)

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
        codec = self.codec if rest[1] else self._unsigned  # as who came in by CURVE reads them
        self.sent.append((socket, routing, codec.decode(rest)))
        self._news.set()
