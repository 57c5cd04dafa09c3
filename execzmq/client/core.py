"""Own the connection of one client session to a server: whether it is there, its lease, its requests.

The gate for requests opens only when a `lease` has told the server's epoch, after each reconnect anew. What a
process is, is not known here, but for the cursors that a lease tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import string
from collections.abc import Callable, Sequence
from functools import partial

from execzmq.client.cursors import ToldCursors
from execzmq.client.launch import is_back
from execzmq.client.links import Links, LinkState
from execzmq.client.requester import Answer, Content, OnDone, PendingCall, Requester
from execzmq.client.silence import REFUSED, UNASKED, lost, lost_with, nobody, stopped, stuck, unanswered
from execzmq.client.standing import Standing
from execzmq.client.topics import Topics
from execzmq.connection import Channel, ConnectionInfo, share_id_of
from execzmq.errors import (
    AuthenticationFailed,
    ClientClosed,
    ExecZMQError,
    RequestTimeout,
    ServerLost,
)
from execzmq.protocol.wire import Codec, Frame, Message
from execzmq.settings import CALL_TIMEOUT, LEASE, SERVER_GONE

_GREETINGS = frozenset({"lease", "kernel_info"})
"""Requests that may leave before the server's epoch is known."""
_HEART = 1.0
"""Seconds in which a heart that beats answers."""
_BUSY = "its heart beats, so it is busy"
_ALPHABET = string.ascii_letters + string.digits


class Connection:
    """One client session. Make it on a running loop; `open` waits for the server; `aclose` ends it.

    After a fork the child must not use it: every call raises `ClientClosed` there.

    Attributes:
        session: random id that names this client to the server.
        prefix: what comes before the `-` in the process ids that this client makes.
        why_down: says why the way to the server is broken; an empty word where that is not known.
        opens_files: whether the server may answer a read with where the output stands on this machine.
        standing: whether the server is there.
        topics: the subscriptions.
        cursors: how far it has read the processes that wait for it; told by its leases.
    """

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info
        self.session = secrets.token_hex(8)
        self.why_down: Callable[[], str] = str
        self.opens_files = False
        self.prefix = _prefix_of(info)
        self._processes = 0
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self.standing = Standing()
        self._is_given_up = False
        self._refused: ExecZMQError | None = None
        self._settling: asyncio.Task[None] | None = None
        self.cursors = ToldCursors(self.renew)
        codec = Codec(info.key.encode(), self.session, digests=info.is_plain)
        self._requester = Requester(codec, lambda channel, frames: self._links.send(channel, frames))
        self._links = Links(
            info,
            self._requester.on_reply,
            lambda frames: self.topics.handle(frames),
            self._on_state,
            self._requester.flush,
        )
        self.topics = Topics(
            codec, self.prefix, self._links.subscribe, self._links.unsubscribe, self._on_status
        )
        self._gone_timer = self._loop.call_later(SERVER_GONE, self._on_gone)

    @property
    def epoch(self) -> str:
        """Name the server's life, as far as it is known."""
        return self._requester.epoch

    async def open(self, seconds: float) -> Message:
        """Wait until the server has answered and all subscriptions hold; return its `kernel_info`.

        Raises:
            ConnectionFailed: nobody answers at its address within `seconds`.
            AuthenticationFailed: it refused this client, or its heart beats and it does not answer.
            RequestTimeout: it is connected, and nothing in it moves.
        """
        try:
            answer = await self._ask("kernel_info", {}, timeout=seconds)
            await self.topics.settle(seconds)
        except (RequestTimeout, ServerLost):
            if self.standing.now == "down":
                raise nobody(self.info, seconds) from None
            raise (unanswered(seconds) if await self.heart_beats() else stuck(self.info, seconds)) from None
        return answer

    async def aclose(self) -> None:
        """Close everything; what still waits for an answer gets `ClientClosed`. Idempotent.

        In a forked child nothing is touched: all of it is the parent's.
        """
        if self.standing.now == "closed" or os.getpid() != self._pid:
            return
        if self.standing.now == "ready":  # what depends on this session ends now, and not with its lease
            with contextlib.suppress(ExecZMQError):
                self._requester.request("lease", self._lease_content(0.0), lambda _: None, timeout=None)
        self.standing.enter("closed")
        self._gone_timer.cancel()
        self.cursors.stop()
        error = ClientClosed("this client was closed")
        self._requester.close(error)
        self.topics.fail_all(error)
        self._links.close()
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.wait((self._settling,))

    @property
    def is_up(self) -> bool:
        """Tell whether a server answers at the moment, as far as this client has noticed."""
        return self.standing.now == "ready" or (self.standing.now == "greeting" and not self.epoch)

    def new_process_id(self) -> str:
        """Return an id that no other process has and whose broadcasts this client gets already."""
        self._processes += 1
        return f"{self.prefix}-{self._processes}"

    def check_usable(self) -> None:
        """Return if requests can be made, or soon: a server that is back is given the stated time anew.

        Raises:
            ClientClosed: it is closed, or this is a forked child.
            ServerLost: there has been no connection for the stated time, and nobody listens there.
            AuthenticationFailed, RequestRejected: the server has refused this client.
        """
        if os.getpid() != self._pid:
            raise ClientClosed("this client belongs to the process that was forked: connect again")
        if self.standing.now == "closed":
            raise ClientClosed("this client is closed")
        if self._refused is not None:
            raise self._refused
        if self._is_given_up:
            if not is_back(self.info):
                raise lost(UNASKED, self.why_down())
            self._await_server()

    async def call(
        self,
        method: str,
        content: Content,
        buffers: Sequence[Frame] = (),
        *,
        timeout: float | None = CALL_TIMEOUT,  # noqa: ASYNC109  # all requests share one timer
        wait: float = 0.0,
    ) -> Message:
        """Ask the server and return its reply. Cancelling cancels the waiting, not what was asked for.

        Args:
            timeout: seconds without an answer; `None` = until the server is lost.
            wait: seconds that the server itself is asked to wait, on top of `timeout`.

        Raises:
            ServerLost: there has been no connection for 5 s, or the server was replaced meanwhile.
            RequestTimeout: no answer came in time; it says whether the server's heart beats.
            RequestRejected: the server's own error.
        """
        try:
            return await self._ask(method, content, buffers, timeout=timeout, wait=wait)
        except RequestTimeout as error:
            if self.standing.now == "closed":
                raise
            beats = await self.heart_beats()
            state = _BUSY if beats else f"nor does its heart beat: {stopped(self.info)}"
            raise RequestTimeout(f"{error.message}; {state}", beats=beats) from None

    def request(
        self,
        method: str,
        content: Content,
        on_done: OnDone,
        buffers: Sequence[Frame] = (),
        *,
        timeout: float | None = CALL_TIMEOUT,
        wait: float = 0.0,
    ) -> PendingCall:
        """Do as `call`, without a coroutine: `on_done` gets the reply or the error, once.

        Raises:
            ClientClosed, ServerLost, AuthenticationFailed: at once, where there is no server.
        """
        self.check_usable()
        return self._requester.request(method, content, on_done, buffers, timeout=timeout, wait=wait)

    def drop(self, call: PendingCall) -> None:
        """Wait no longer for a reply; what was asked for may be done all the same."""
        self._requester.drop(call)

    def open_reads(self) -> list[str]:
        """Return the ids of the reads that have no answer yet."""
        return self._requester.open_reads()

    async def learn_epoch(self) -> None:
        """Ask which life of the server this is, where a request was refused as meant for another one."""
        self._take_epoch(await self.call("lease", self._lease_content()))

    async def heart_beats(self) -> bool:
        """Tell within a second whether the server's heart beats, as a busy server's does."""
        return await self._links.heart_beats(_HEART)

    def renew(self) -> None:
        """Renew the lease now, and tell the cursors with it."""
        if self.standing.now == "ready":
            self._lease(self._on_lease)
            self.cursors.tick()

    def statistics(self) -> dict[str, int]:
        """Return how much is open at the moment, and what was refused."""
        return {**self._requester.statistics(), **self.topics.statistics()}

    async def _ask(
        self,
        method: str,
        content: Content,
        buffers: Sequence[Frame] = (),
        *,
        timeout: float | None,  # noqa: ASYNC109  # all requests share one timer
        wait: float = 0.0,
    ) -> Message:
        answer: asyncio.Future[Message] = self._loop.create_future()
        call = self.request(method, content, _setter(answer), buffers, timeout=timeout, wait=wait)
        try:
            return await answer
        except BaseException:
            self._requester.drop(call)
            raise

    # What becomes of the server.

    def _on_state(self, channel: Channel, state: LinkState) -> None:
        if self.standing.now == "closed":
            return
        if channel != "shell":
            if state == "up":
                self._requester.on_up(channel)
        elif state == "up":
            self._greet()
        elif state == "down":
            self._on_down()
        else:
            self._refuse(AuthenticationFailed(REFUSED))

    def _refuse(self, error: ExecZMQError) -> None:
        self._refused = error
        self._requester.fail_all(error)
        self.topics.fail_all(error)

    def _greet(self) -> None:
        self.standing.enter("greeting")
        self._is_given_up = False
        self._gone_timer.cancel()
        self._requester.on_new_link(_GREETINGS)
        self._lease(self._on_greeted)

    def _on_greeted(self, answer: Answer) -> None:
        if self.standing.now != "greeting":
            return
        if isinstance(answer, RequestTimeout):
            self._lease(self._on_greeted)
            return
        if not isinstance(answer, Message):
            self._refuse(answer)
            return
        self.standing.enter("ready")
        is_first = not self.epoch
        self._take_epoch(answer)
        self._requester.open_gate()
        self.cursors.tick()
        if not is_first and self._settling is None:
            self._settling = self._loop.create_task(self._settle())

    async def _settle(self) -> None:
        """Look at the logs again as soon as no broadcast of the new connection can be missed."""
        try:
            await self.topics.settle()
        except RequestTimeout as error:
            self.topics.fail_all(error)
        else:
            self.topics.resume_all()
        finally:
            self._settling = None

    def _on_down(self) -> None:
        if self.standing.now == "down":
            return
        self.standing.enter("down")
        self._requester.shut_gate()
        self._await_server()

    def _await_server(self) -> None:
        self._is_given_up = False
        self._gone_timer = self._loop.call_later(SERVER_GONE, self._on_gone)

    def _on_gone(self) -> None:
        if self.standing.now == "down":
            self._is_given_up = True
            self._requester.fail_each(partial(lost_with, reason=self.why_down()))
            self.topics.fail_all(lost(reason=self.why_down()))

    def _on_status(self, epoch: str, _status: str) -> None:
        if self.standing.now == "ready" and epoch != self.epoch:
            self.renew()

    # The lease.

    def _lease(self, on_done: OnDone) -> None:
        self._requester.request("lease", self._lease_content(), on_done, timeout=CALL_TIMEOUT)

    def _lease_content(self, seconds: float = LEASE) -> Content:
        return {"seconds": seconds, "cursors": self.cursors.tell(), "open": self.open_reads()}

    def _on_lease(self, answer: Answer) -> None:
        if isinstance(answer, Message):
            self._take_epoch(answer)

    def _take_epoch(self, answer: Message) -> None:
        epoch = str(answer.content["epoch"])
        if self.epoch and epoch != self.epoch:
            self._requester.on_new_epoch(epoch)
            self.topics.resume_all()
        self._requester.epoch = epoch


def _prefix_of(info: ConnectionInfo) -> str:
    """Return what no other client's process ids begin with; an operator's have its share's id before it."""
    own = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return f"{share_id_of(info.curve_publickey)}-{own}" if info.role == "operator" else own


def _setter(future: asyncio.Future[Message]) -> OnDone:
    """Return what puts an answer into a future whose waiter may have gone."""

    def on_done(answer: Answer) -> None:
        if future.done():
            return
        if isinstance(answer, Message):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    return on_done
