"""Own the way from frames to a handler and back; the one place that turns exceptions into error replies.

Order: who speaks, signature, bounds, method, role, repeated request, epoch, fields, process, handler. Nothing
is remembered of a message before its signature has been verified, or CURVE has done so. A request whose id
can be read always gets a reply.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from execzmq.errors import (
    AuthenticationFailed,
    ExecZMQError,
    InvalidRequest,
    LimitExceeded,
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
from execzmq.server.access import Peer
from execzmq.server.guard import Guard
from execzmq.server.lines import user_of
from execzmq.server.views import seen_error
from execzmq.settings import SHARE_PENDING, SHARE_SESSIONS
from execzmq.zmqloop import Frames

log = logging.getLogger("execzmq.server")

_LIGHT = 65536
"""Bytes up to which a frame is copied: cheaper than a view that keeps the message alive."""

Buffer: TypeAlias = bytes | memoryview


@dataclass(slots=True, frozen=True)
class Caller:
    """Who asks: a peer, its session, the id of the request, and the connection that it came over.

    Args:
        is_current: tells whether a peer that was let in still is.
    """

    peer: Peer
    session: str
    msg_id: str
    connection: bytes
    is_current: Callable[[Peer], bool]

    def check_current(self) -> None:
        """Return if its share has not ended since it asked.

        Raises:
            PermissionRefused: it has.
        """
        if not self.is_current(self.peer):
            raise _ended()


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


class Recorder(Protocol):
    """Whoever keeps the record of who did what."""

    def begun(self, peer: Peer, session: str) -> None:
        """Note a session that was not known before."""

    def done(self, peer: Peer, name: str, process_id: str, session: str, ename: str) -> None:
        """Note a request that changes something, and the name of its error, where it had one."""


class Pending:
    """What is being worked on, and the answers kept: a guest's apart, so that it costs the others nothing."""

    def __init__(self) -> None:
        self._routes: dict[str, dict[tuple[str, str], list[Any]]] = {}
        self._owners: Answers[Reply | ExecZMQError] = Answers()
        self._guests: dict[str, Answers[Reply | ExecZMQError]] = {}

    def answers_of(self, peer: Peer) -> Answers[Reply | ExecZMQError]:
        """Return the answers that are kept for a peer."""
        return self._guests.setdefault(peer.user_id, Answers()) if peer.is_guest else self._owners

    def check_room(self, peer: Peer) -> None:
        """Return if one more request of a peer may wait.

        Raises:
            LimitExceeded: a guest has too many.
        """
        if not peer.is_guest:
            return
        value = len(self._routes.get(peer.user_id, ()))
        if value >= SHARE_PENDING:
            message = f"{value} requests of this share wait for their answers, which is the most: ask less"
            raise LimitExceeded(message, limit=SHARE_PENDING, value=value)

    def add(self, caller: Caller, routing: list[Any]) -> None:
        """Note a request whose answer comes later, and where it goes."""
        self._routes.setdefault(caller.peer.user_id, {})[caller.session, caller.msg_id] = routing

    def moved(self, caller: Caller, routing: list[Any]) -> None:
        """Note that a client has connected anew: the answer must go to where it is now."""
        route = self._routes.get(caller.peer.user_id, {}).get((caller.session, caller.msg_id))
        if route is not None:
            route[:] = routing

    def done(self, caller: Caller) -> None:
        """Note that a request has its answer, or never will have."""
        routes = self._routes.get(caller.peer.user_id, {})
        routes.pop((caller.session, caller.msg_id), None)
        if not routes:
            self._routes.pop(caller.peer.user_id, None)

    def keep(self, caller: Caller, reply: Reply | ExecZMQError, now: float) -> bool:
        """Keep the answer of a request; return whether it is the first one that it has."""
        peer = caller.peer
        answers = self._guests.get(peer.user_id) if peer.is_guest else self._owners
        if answers is None:  # a guest's who is no more
            return True
        return answers.finish(peer.user_id, caller.session, caller.msg_id, reply, now)

    def forget(self, user_id: str) -> None:
        """Forget the answers of a user who is no more."""
        self._guests.pop(user_id, None)


class Dispatcher:
    """Serves requests.

    Args:
        guard: knows who speaks, and reads and writes the messages.
        epoch: of this server life.
        handlers: one for each method.
        sessions: is told of every session that is heard.
        send: sends frames through the named socket.
        clock: monotonic seconds.
        recorder: is told of sessions, and of each request that changes something.
    """

    def __init__(
        self,
        guard: Guard,
        epoch: str,
        handlers: dict[str, Handler],
        sessions: Sessions,
        send: Send,
        clock: Callable[[], float],
        recorder: Recorder,
    ) -> None:
        self._guard = guard
        self._epoch = epoch
        self._handlers = handlers
        self._sessions = sessions
        self._send = send
        self._clock = clock
        self._recorder = recorder
        self._tasks: dict[asyncio.Future[Reply], Caller | None] = {}
        """Whose each is, of those that may be broken off."""
        self._pending = Pending()
        self.last_request = clock()
        self.statistics = {"requests": 0, "refused": 0, "unreadable": 0}

    def handle(self, socket: str, frames: Frames) -> None:
        """Serve one message of a request socket."""
        self.statistics["requests"] += 1
        user_id = user_of(frames[-1])
        try:
            routing, rest = split([frame.bytes if len(frame) <= _LIGHT else frame.buffer for frame in frames])
        except ExecZMQError:
            user_id = None
        if user_id is None:
            self.statistics["unreadable"] += 1
            return
        peer = self._guard.peer_of(user_id)
        codec = self._guard.codec_of(peer)
        try:
            if peer is None:
                raise _ended()
            message = codec.decode(rest)
        except AuthenticationFailed as error:
            self._refused(socket, error)
            return
        except ExecZMQError as error:
            self._refused(socket, error)
            header = codec.header_of(rest)
            if header is not None:
                self._send(socket, [*routing, *_frames_of(codec, header, error)])
            return
        self._guard.heard(peer, frames[-1])
        self._serve(socket, routing, peer, message)

    def forget(self, user_id: str) -> None:
        """Forget the answers kept for a user who is no more; break off what waits and has done nothing."""
        self._pending.forget(user_id)
        for task, caller in list(self._tasks.items()):
            if caller is not None and caller.peer.user_id == user_id:
                task.cancel()

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
        session, connection = peer.session(message.session), bytes(routing[0])
        caller = Caller(peer, session, message.msg_id, connection, self._guard.is_current)
        try:
            reply = self._perform(socket, caller, message)
        except Exception as error:
            self._finish(socket, routing, caller, message, _told(error))
            return
        if reply is None:
            self._pending.moved(caller, routing)
            return
        if isinstance(reply, Reply | ExecZMQError):
            self._finish(socket, routing, caller, message, reply)
            return
        self._pending.add(caller, routing)
        if isinstance(reply, Later):
            reply.subscribe(partial(self._finish_later, socket, routing, caller, message))
            return
        task = asyncio.ensure_future(reply)
        self._tasks[task] = caller if _may_break_off(message) else None
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
        peer, now = caller.peer, self._clock()
        peer.check_method(name)
        self._pending.check_room(peer)
        most = SHARE_SESSIONS if peer.is_guest else None
        if self._sessions.hear(caller.session, peer.user_id, now, most):
            self._recorder.begun(peer, caller.session)
        if not method.idempotent:
            answers = self._pending.answers_of(peer)
            seen, answer = answers.begin(peer.user_id, caller.session, caller.msg_id, now)
            if seen is not Seen.NEW:
                return answer
        if method.epoch and message.content.get("epoch", self._epoch) != self._epoch:
            raise WrongEpoch("the request was meant for an earlier life of this server", epoch=self._epoch)
        request = requests.check(name, message.content)
        peer.check_process(name, request)
        if len(message.buffers) > requests.MOST_BUFFERS.get(name, 0):
            raise InvalidRequest(f"{name} takes no more than {requests.MOST_BUFFERS.get(name, 0)} buffers")
        return self._handlers[name](caller, request, message.buffers)

    def _done(
        self, socket: str, routing: list[Any], caller: Caller, message: Message, done: asyncio.Future[Reply]
    ) -> None:
        del self._tasks[done]
        if done.cancelled():
            if self._guard.is_current(caller.peer):
                self._pending.done(caller)
            else:
                self._finish(socket, routing, caller, message, _ended())
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
        self._pending.done(caller)
        name = message.msg_type.removesuffix("_request")
        method = METHODS.get(name)
        if method is not None and not method.idempotent:
            is_first = self._pending.keep(caller, reply, self._clock())
            if is_first or not isinstance(reply, Reply):
                self._tell_recorder(name, caller, message, reply)
        if not self._guard.is_current(caller.peer):
            reply = _ended()  # its share has ended while it waited
        if isinstance(reply, ExecZMQError):
            reply = seen_error(reply, caller.peer.sees)
        codec = self._guard.codec_of(caller.peer)
        self._send(socket, [*routing, *_frames_of(codec, message.header, reply)])

    def _tell_recorder(
        self, name: str, caller: Caller, message: Message, reply: Reply | ExecZMQError
    ) -> None:
        answer, ename = (reply.content, "") if isinstance(reply, Reply) else ({}, type(reply).__name__)
        process_id = answer.get("process_id") or message.content.get("process_id", "")
        self._recorder.done(caller.peer, name, str(process_id), caller.session, ename)


def _may_break_off(message: Message) -> bool:
    """Tell whether a request that is cancelled has changed nothing; a `write` waits until it is accepted."""
    name = message.msg_type.removesuffix("_request")
    return name == "write" or METHODS[name].idempotent


def _frames_of(codec: Codec, header: dict[str, Any], reply: Reply | ExecZMQError) -> list[Buffer]:
    """Return the frames of a reply; one that cannot be packed becomes an error, which always can."""
    msg_type = str(header.get("msg_type", "")).removesuffix("_request")[:64] + "_reply"
    if isinstance(reply, Reply):
        try:
            content = {"status": "ok", **reply.content}
            return codec.encode(msg_type, content, parent=header, buffers=reply.buffers)
        except ExecZMQError as error:
            reply = error
    return codec.encode(msg_type, error_content(reply), parent=header)


def _ended() -> PermissionRefused:
    return PermissionRefused(
        "this share was revoked, or its time is over: ask the server's user for another", role="none"
    )


def _told(error: Exception) -> ExecZMQError:
    """Return what the client is told of an exception; one that is not ours is logged under an incident id."""
    if isinstance(error, ExecZMQError):
        return error
    incident = secrets.token_hex(4)
    log.error("incident %s", incident, exc_info=error)
    return ServerError(f"the server failed; its log tells more under incident {incident}", incident=incident)
