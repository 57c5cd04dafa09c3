"""Own the way from frames to a handler and back; the one place that turns exceptions into error replies.

Order: signature, bounds, who speaks, method, role, repeated request, epoch, fields, handler. Nothing is
remembered of a message before its signature has been verified. A request whose id can be read always gets a
reply.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import zmq

from execzmq.errors import (
    AuthenticationFailed,
    ExecZMQError,
    InvalidRequest,
    PermissionRefused,
    ServerError,
    UnknownMethod,
    WrongEpoch,
)
from execzmq.protocol.methods import METHODS
from execzmq.protocol.peers import Answers, Seen, Sessions
from execzmq.protocol.values import error_content
from execzmq.protocol.wire import Codec, Message, split
from execzmq.server import requests
from execzmq.server.auth import Peer, peer_of
from execzmq.zmqloop import Frames

log = logging.getLogger("execzmq.server")

_LIGHT = 65536
"""Bytes up to which a frame is copied: cheaper than a view that keeps the message alive."""

Buffer: TypeAlias = bytes | memoryview


@dataclass(slots=True, frozen=True)
class Caller:
    """Who asks: a peer, its session, the id of the request, and the connection that it came over."""

    peer: Peer
    session: str
    msg_id: str
    connection: bytes


@dataclass(slots=True, frozen=True)
class Reply:
    """Fields of an `ok` reply and its buffers."""

    content: dict[str, Any] = field(default_factory=dict)
    buffers: Sequence[Buffer] = ()


@dataclass(slots=True, frozen=True)
class Later:
    """A reply that something else will give: `subscribe` is told whom to call with it, once.

    It spares the task and the turns of the loop that an awaitable takes.
    """

    subscribe: Callable[[Callable[[Reply | Exception], None]], None]


Handler: TypeAlias = Callable[[Caller, Any, Sequence[Any]], "Reply | Later | Awaitable[Reply]"]
"""Takes who asks, the checked request and the buffers. What takes time is a `Later` or an awaitable."""

Send: TypeAlias = Callable[[str, list[Any]], None]


class Dispatcher:
    """Serves requests.

    Args:
        codec: reads and writes the messages.
        epoch: of this server life.
        handlers: one for each method.
        answers: remembers what was answered.
        sessions: is told of every session that is heard.
        send: sends frames through the named socket.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        codec: Codec,
        epoch: str,
        handlers: dict[str, Handler],
        answers: Answers[Reply | ExecZMQError],
        sessions: Sessions,
        send: Send,
        clock: Callable[[], float],
    ) -> None:
        self._codec = codec
        self._epoch = epoch
        self._handlers = handlers
        self._answers = answers
        self._sessions = sessions
        self._send = send
        self._clock = clock
        self._tasks: set[asyncio.Future[Reply]] = set()
        self._routes: dict[tuple[str, str, str], list[Any]] = {}
        self.last_request = clock()
        self.statistics = {"requests": 0, "refused": 0, "unreadable": 0}

    def handle(self, socket: str, frames: Frames) -> None:
        """Serve one message of a request socket."""
        self.statistics["requests"] += 1
        peer = peer_of(_user_id(frames))
        try:
            routing, rest = split([frame.bytes if len(frame) <= _LIGHT else frame.buffer for frame in frames])
        except ExecZMQError:
            peer = None
        if peer is None:
            self.statistics["unreadable"] += 1
            return
        try:
            message = self._codec.decode(rest)
        except AuthenticationFailed as error:
            self._refused(socket, error)
            return
        except ExecZMQError as error:
            self._refused(socket, error)
            header = self._codec.header_of(rest)
            if header is not None:
                self._reply(socket, routing, header, error)
            return
        self._serve(socket, routing, peer, message)

    async def close(self) -> None:
        """Cancel the handlers that still wait; their clients get no reply, and ask the next server."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _refused(self, socket: str, error: ExecZMQError) -> None:
        """Count a message that was refused; the log tells ever more seldom, so that junk cannot fill it."""
        self.statistics["refused"] += 1
        count = self.statistics["refused"]
        if count & (count - 1) == 0:
            log.warning("%d messages were refused so far, the last on %s: %s", count, socket, error)

    def _serve(self, socket: str, routing: list[Any], peer: Peer, message: Message) -> None:
        self.last_request = self._clock()
        caller = Caller(peer, message.session, message.msg_id, bytes(routing[0]))
        try:
            reply = self._perform(socket, caller, message)
        except Exception as error:
            self._finish(socket, routing, caller, message, _told(error))
            return
        key = caller.peer.user_id, caller.session, caller.msg_id
        if reply is None:
            # The client has connected anew: the answer must go to where it is now.
            if key in self._routes:
                self._routes[key][:] = routing
            return
        if isinstance(reply, Reply | ExecZMQError):
            self._finish(socket, routing, caller, message, reply)
            return
        self._routes[key] = routing
        if isinstance(reply, Later):
            reply.subscribe(partial(self._finish_later, socket, routing, caller, message))
            return
        task = asyncio.ensure_future(reply)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(socket, routing, caller, message, done))

    def _perform(
        self, socket: str, caller: Caller, message: Message
    ) -> Reply | ExecZMQError | Later | Awaitable[Reply] | None:
        """Call the handler, or return what was answered before; None while that is being worked on."""
        name = message.msg_type.removesuffix("_request")
        method = METHODS.get(name)
        if method is None or method.socket != socket or name == message.msg_type:
            raise UnknownMethod(
                f"there is no {message.msg_type[:64]!r} on the {socket} socket of this server"
            )
        if not caller.peer.may(method.role):
            raise PermissionRefused(f"{name} is for the role {method.role}; this peer is {caller.peer.role}")
        now = self._clock()
        self._sessions.hear(caller.session, caller.peer.user_id, now)
        if not method.idempotent:
            seen, answer = self._answers.begin(caller.peer.user_id, caller.session, caller.msg_id, now)
            if seen is not Seen.NEW:
                return answer
        if method.epoch and message.content.get("epoch", self._epoch) != self._epoch:
            raise WrongEpoch("the request was meant for an earlier life of this server", epoch=self._epoch)
        request = requests.check(name, message.content)
        if len(message.buffers) > requests.MOST_BUFFERS.get(name, 0):
            raise InvalidRequest(f"{name} takes no more than {requests.MOST_BUFFERS.get(name, 0)} buffers")
        return self._handlers[name](caller, request, message.buffers)

    def _done(
        self, socket: str, routing: list[Any], caller: Caller, message: Message, done: asyncio.Future[Reply]
    ) -> None:
        self._tasks.discard(done)
        if done.cancelled():
            self._routes.pop((caller.peer.user_id, caller.session, caller.msg_id), None)
            return
        error = done.exception()
        if error is None:
            self._finish(socket, routing, caller, message, done.result())
        elif isinstance(error, Exception):
            self._finish(socket, routing, caller, message, _told(error))

    def _finish_later(
        self, socket: str, routing: list[Any], caller: Caller, message: Message, reply: Reply | Exception
    ) -> None:
        told = reply if isinstance(reply, Reply) else _told(reply)
        self._finish(socket, routing, caller, message, told)

    def _finish(
        self, socket: str, routing: list[Any], caller: Caller, message: Message, reply: Reply | ExecZMQError
    ) -> None:
        self._routes.pop((caller.peer.user_id, caller.session, caller.msg_id), None)
        method = METHODS.get(message.msg_type.removesuffix("_request"))
        if method is not None and not method.idempotent:
            self._answers.finish(caller.peer.user_id, caller.session, caller.msg_id, reply, self._clock())
        self._reply(socket, routing, message.header, reply)

    def _reply(
        self, socket: str, routing: list[Any], header: dict[str, Any], reply: Reply | ExecZMQError
    ) -> None:
        self._send(socket, [*routing, *self._frames_of(header, reply)])

    def _frames_of(self, header: dict[str, Any], reply: Reply | ExecZMQError) -> list[Buffer]:
        """Return the frames of a reply; one that cannot be packed becomes an error, which always can."""
        msg_type = str(header.get("msg_type", "")).removesuffix("_request")[:64] + "_reply"
        if isinstance(reply, Reply):
            try:
                content = {"status": "ok", **reply.content}
                return self._codec.encode(msg_type, content, parent=header, buffers=reply.buffers)
            except ExecZMQError as error:
                reply = error
        return self._codec.encode(msg_type, error_content(reply), parent=header)


def _told(error: Exception) -> ExecZMQError:
    """Return what the client is told of an exception; one that is not ours is logged under an incident id."""
    if isinstance(error, ExecZMQError):
        return error
    incident = secrets.token_hex(4)
    log.error("incident %s", incident, exc_info=error)
    return ServerError(f"the server failed; its log tells more under incident {incident}", incident=incident)


def _user_id(frames: Frames) -> str | None:
    try:
        return str(frames[-1].get("User-Id"))
    except zmq.ZMQError:
        return None
