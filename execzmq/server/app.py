"""Own a whole server: builds its parts, runs until it is told to end, and ends them in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import zmq

from execzmq import connection
from execzmq.backends.emptied import fill_again, mend_journal
from execzmq.backends.local import LocalBackend
from execzmq.connection import ConnectionInfo
from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.protocol.peers import Sessions
from execzmq.protocol.wire import Codec
from execzmq.server import handlers
from execzmq.server.context import Context, Identity
from execzmq.server.dispatch import Dispatcher
from execzmq.server.guard import Guard
from execzmq.server.interest import Interest
from execzmq.server.leases import LeaseKeeper
from execzmq.server.lines import Connection, connection_of, cut, is_alive, user_of
from execzmq.server.mending import Mender
from execzmq.server.outgoing import Outgoing
from execzmq.server.publisher import Publisher
from execzmq.server.reaping import be_first
from execzmq.server.sharing import Sharing
from execzmq.server.sockets import Endpoints, Sockets
from execzmq.server.state import StateFolder
from execzmq.server.succession import take_over
from execzmq.settings import Settings
from execzmq.zmqloop import Frames

log = logging.getLogger("execzmq.server")

_PORTS = {"shell": 1, "control": 2, "stdin": 3, "iopub": 4, "hb": 5}
_TICK = 1.0
_COLLECT = 20_000, 20, 50
"""Objects, and collections of them, after which the next generation is looked at."""
_COPIED = 65536
"""Bytes up to which a frame is copied when it is sent: cheaper than to keep it until it has left."""
_STEP = 20.0
"""Seconds that one step of the end may take, well above what each should need; the ladder's come on top."""
_FAREWELL = 0.1
"""Seconds for clients to read the last replies: with `IMMEDIATE` they drop what is unread at a disconnect."""


class Server:
    """A server that is open. Made by `open`, ended by `close`."""

    def __init__(self, state: StateFolder, backend: LocalBackend, info: ConnectionInfo) -> None:
        self.info = info
        self._state = state
        self._backend = backend
        self._clock = time.monotonic
        self._stop = asyncio.Event()
        self._keeps_processes = False
        self._busy_at = self._clock()
        self._interest: Interest[Connection] = Interest()
        self._sessions = Sessions()
        self._outgoing = Outgoing()
        self._sockets = Sockets(_endpoints(info), self._on_request, self._on_subscription)
        settings, key = backend.settings, info.key.encode()
        self._sharing = Sharing(
            state.path, settings, self._sockets, lambda user_id: self._dispatcher.forget(user_id)
        )
        self._guard = Guard(key, info.epoch, self._sharing.book, self._sharing.lines)
        self._publisher = Publisher(
            Codec(key, info.epoch, digests=settings.insecure),
            partial(self._outgoing.send, self._sockets.iopub),
            self._interest,
            self._clock,
            self._sharing.book.is_observed,
        )
        context = Context(
            identity=Identity(state.name, info.epoch, info.host, info.pid, time.time()),
            backend=backend,
            sessions=self._sessions,
            request_shutdown=self.stop,
            statistics=self.statistics,
            clock=self._clock,
            sharing=self._sharing,
        )
        self._leases = LeaseKeeper(backend, self._sessions, context.pages, self._clock)
        self._dispatcher = Dispatcher(
            self._guard,
            info.epoch,
            handlers.bind(context),
            self._sessions,
            self._send,
            self._clock,
            self._sharing.recorder,
        )
        self._mender = Mender(
            state, self._sockets, info, partial(fill_again, backend), partial(mend_journal, backend)
        )
        backend.listener = self._publisher

    @classmethod
    async def open(cls, name: str, settings: Settings, *, replace: bool = False) -> Server:
        """Take the name, take over what an earlier life left, bind the sockets, write the connection file.

        Args:
            replace: end the server of that name, if one runs; it leaves its commands to the keeper.

        Raises:
            Conflict: a server of that name runs, or cannot be ended.
            ConnectionFailed: a folder is not this user's own.
        """
        async with contextlib.AsyncExitStack() as undo:
            state = take_over(name) if replace else StateFolder(name)
            undo.callback(state.close)
            backend = await LocalBackend.open(state.path, settings)
            undo.push_async_callback(backend.aclose)
            server = cls(state, backend, _new_connection(state))
            undo.callback(server._sockets.close)
            undo.callback(server._sharing.close)
            server._sharing.open()
            state.announce(server.info, server._sharing.plain_file(server.info))
            undo.pop_all()
        server._publisher.status(server.info.epoch, "starting")
        return server

    def stop(self, *, keep_processes: bool = False) -> None:
        """Begin the end; with `keep_processes` the commands are left to the keeper.

        From now on the server is not found any more: who comes next starts another, and is not cut off.
        """
        self._keeps_processes = self._keeps_processes or keep_processes
        self._stop.set()
        self._state.withdraw(self.info)

    async def run(self) -> None:
        """Serve until `stop` is called, or until nobody has needed the server for its idle time."""
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._until_next_look())
            self._leases.look()
            self._interest.sweep(is_alive)
            if not self._stop.is_set():
                self._mender.look()
                self._sharing.look()
            if self._is_idle():
                log.info("ending: nothing to do")
                self.stop()

    async def close(self) -> None:
        """End the processes by the ladder, tell it, answer, and release everything.

        A step that fails or takes too long keeps none of the others from being made; its error is raised at
        the end.
        """
        async with contextlib.AsyncExitStack() as end:  # what is pushed last is done first
            end.callback(self._state.close)
            end.push_async_callback(_within, _STEP, self._backend.aclose)
            end.callback(self._sockets.close)
            end.callback(self._sharing.close)
            end.push_async_callback(asyncio.sleep, _FAREWELL)
            end.callback(self._publisher.close)
            end.callback(self._publisher.farewell)
            end.push_async_callback(_within, _STEP, self._dispatcher.close)
            if not self._keeps_processes:
                most = self._backend.settings.shutdown_grace + _STEP
                end.push_async_callback(_within, most, self._backend.end_all, "shutdown")
            end.callback(self._publisher.status, self.info.epoch, "stopping")
            end.callback(self._state.withdraw, self.info)

    def statistics(self) -> dict[str, int]:
        """Return the counters of all parts."""
        return {
            **self._backend.statistics(),
            **self._dispatcher.statistics,
            "unsent": self._outgoing.unsent,
            "broadcasts": self._publisher.sent,
            "sessions": len(self._sessions),
            "topics": len(self._interest),
            "shares": len(self._sharing.book),
        }

    def _is_idle(self) -> bool:
        limit = self._backend.settings.idle_timeout
        now = self._clock()
        if self._backend.table.alive or self._sessions.count_leases(now) or len(self._sharing.book):
            self._busy_at = now
        return limit is not None and now - max(self._busy_at, self._dispatcher.last_request) > limit

    def _until_next_look(self) -> float:
        next_end = self._sharing.seconds_to_next_end()
        return _TICK if next_end is None else min(_TICK, next_end)

    def _on_request(self, socket: str, frames: Frames) -> None:
        self._dispatcher.handle(socket, frames)

    def _send(self, socket: str, frames: Sequence[bytes | memoryview]) -> None:
        """Send a reply. A page, however small, is not copied: its end tells that ZeroMQ is done with it."""
        port = self._sockets.requests[socket]
        if not isinstance(frames[-1], memoryview):
            self._outgoing.send(port, frames, copy=max(map(len, frames)) <= _COPIED)
            return
        light = [zmq.Frame(frame, copy=False) if isinstance(frame, memoryview) else frame for frame in frames]
        self._outgoing.send(port, light, copy=len(frames[-1]) <= _COPIED)

    def _on_subscription(self, frame: zmq.Frame) -> None:
        """Decide on a subscription and apply it before the next is received, so that nobody else gets it."""
        message, connection = frame.bytes, connection_of(frame)
        kind, topic = message[:1], message[1:]
        if kind != b"\x01" or connection is None:
            # Without a connection it is libzmq's own word that one has gone; which, is seen at the next look.
            self._sockets.dismiss(topic)
            self._interest.remove(topic, connection)
            return
        peer = self._guard.peer_of(user_of(frame))
        if peer is not None and peer.may_subscribe(topic) and self._interest.has_room(connection):
            self._guard.heard(peer, frame)
            self._sockets.admit(topic)
            self._interest.add(topic, connection)
            self._publisher.welcome(topic)
        elif self._interest.refused(connection):
            cut(connection)


async def serve(
    name: str,
    settings: Settings,
    ready: Callable[[ConnectionInfo], None],
    ending: Callable[[], object],
    *,
    replace: bool = False,
) -> None:
    """Run a server until it is told to end: SIGTERM and SIGINT end its processes, SIGHUP leaves them.

    These signals are let through where whoever started this process had blocked them.

    Args:
        ready: called once, when clients can connect.
        ending: called once, when the end begins.
        replace: as `Server.open` has it.

    Raises:
        Conflict, ConnectionFailed: as by `Server.open`.
    """
    be_first()
    server = await Server.open(name, settings, replace=replace)
    # What lives for long would be looked at again and again: by its many short-lived objects a busy server
    # would spend a tenth of its time on that.
    gc.freeze()
    DescriptorLimit()  # each command takes three
    gc.set_threshold(*_COLLECT)
    loop = asyncio.get_running_loop()
    for signo in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signo, server.stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: server.stop(keep_processes=True))
    # A thread that starts programs may have them blocked, and a child has what its thread has.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        log.info("server %s is ready, pid %d", name, os.getpid())
        ready(server.info)
        await server.run()
    finally:
        ending()
        await server.close()


async def _within(seconds: float, step: Callable[..., Awaitable[object]], *arguments: object) -> None:
    async with asyncio.timeout(seconds):
        await step(*arguments)


def _new_connection(state: StateFolder) -> ConnectionInfo:
    return ConnectionInfo(
        transport="ipc",
        ip=str(state.sockets / connection.SOCKET_PREFIX),
        shell_port=_PORTS["shell"],
        control_port=_PORTS["control"],
        stdin_port=_PORTS["stdin"],
        iopub_port=_PORTS["iopub"],
        hb_port=_PORTS["hb"],
        key=state.key(),
        host=connection.host_id(),
        hostname=os.uname().nodename,
        epoch=secrets.token_hex(8),
        pid=os.getpid(),
    )


def _endpoints(info: ConnectionInfo) -> Endpoints:
    return Endpoints(
        shell=(info.endpoint("shell"),),
        control=(info.endpoint("control"),),
        stdin=(info.endpoint("stdin"),),
        iopub=(info.endpoint("iopub"),),
        hb=(info.endpoint("hb"),),
    )
