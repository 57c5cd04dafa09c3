"""Own the requests of one client that wait for their replies: sending, matching, repeating, giving up.

Knows neither sockets nor whether the server is there: its owner opens and shuts the gate by which requests
leave, and says what became of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from execzmq.connection import Channel
from execzmq.errors import ExecZMQError, RequestTimeout, ServerLost
from execzmq.protocol.calls import Call, Calls
from execzmq.protocol.methods import METHODS
from execzmq.protocol.values import check_reply
from execzmq.protocol.wire import Codec, Frame, Message

_OPEN_TOLD = 256
"""Open reads that a read or a lease names; of thousands most are long polls, which have no page yet."""

Content: TypeAlias = dict[str, Any]
Answer: TypeAlias = Message | ExecZMQError
OnDone: TypeAlias = Callable[[Answer], None]


@dataclass(slots=True)
class Request:
    """What a call carries until it has its answer.

    Args:
        is_sent: it has left at least once, so it may have been done.
    """

    content: Content
    buffers: Sequence[Frame]
    on_done: OnDone
    is_sent: bool = False


PendingCall: TypeAlias = Call[Request]


class Requester:
    """All open requests, with one timer for them.

    Args:
        send: sends frames over a channel; false where there is no room or connection.

    Attributes:
        epoch: that requests carry which are meant for one server life.
    """

    def __init__(self, codec: Codec, send: Callable[[Channel, Sequence[Frame]], bool]) -> None:
        self.epoch = ""
        self._refused = 0
        self._codec = codec
        self._transmit = send
        self._loop = asyncio.get_running_loop()
        self._calls: Calls[Request] = Calls()
        self._gate: Collection[str] | None = ()
        self._unsent: dict[PendingCall, None] = {}
        self._were_up: set[Channel] = set()
        self._timer: asyncio.TimerHandle | None = None

    def request(
        self,
        method: str,
        content: Content,
        on_done: OnDone,
        buffers: Sequence[Frame] = (),
        *,
        timeout: float | None,
        wait: float = 0.0,
    ) -> PendingCall:
        """Send a request, as soon as the gate is open for it; `on_done` is called once.

        Args:
            timeout: seconds after which it is given up; `None` = never.
            wait: seconds that the server is asked to wait before it answers; `timeout` begins after them.

        Raises:
            LocalProtocolError, LimitExceeded: it cannot be packed.
        """
        now = self._loop.time()
        deadline = None if timeout is None else now + timeout + wait
        request = Request(content, buffers, on_done)
        call = self._calls.open(self._codec.next_id(), method, request, now, deadline, wait)
        try:
            self._send(call)
        except ExecZMQError:
            self.drop(call)
            raise
        self._arm(call.due_at)
        return call

    def drop(self, call: PendingCall) -> None:
        """Wait no longer for a reply; what was asked for may be done all the same."""
        self._calls.drop(call.msg_id)
        self._unsent.pop(call, None)

    def open_reads(self) -> list[str]:
        """Return the ids of the newest reads that have no answer yet."""
        return self._calls.open_ids("read", _OPEN_TOLD)

    def on_reply(self, frames: Sequence[Frame]) -> None:
        """Take a message from the server; a late or a bad one is counted and dropped."""
        try:
            message = self._codec.decode(frames)
        except ExecZMQError:
            self._refused += 1
            return
        call = self._calls.match(message.parent.get("msg_id"))
        if call is None:
            return
        self._unsent.pop(call, None)
        try:
            check_reply(call.method, message.content)
        except ExecZMQError as error:
            call.payload.on_done(error)
            return
        call.payload.on_done(message)

    def flush(self, channel: Channel) -> None:
        """Try again what found no room on a channel."""
        if self._unsent:
            for call in [one for one in self._unsent if METHODS[one.method].socket == channel]:
                self._send(call)

    def on_new_link(self, may_leave: Collection[str]) -> None:
        """Count all as unsent, since replies to the link before are lost; send some methods at once."""
        self._gate = may_leave
        self._unsent = dict.fromkeys(self._calls)
        self._send_unsent()

    def on_up(self, channel: Channel) -> None:
        """Send anew what is open on a channel whose connection broke, maybe alone of all, and is a new one.

        It may be to a new server. What that could not answer rightly is left to the timer: by then its epoch
        is known.
        """
        for call in self._calls.lasting(channel) if channel in self._were_up else ():
            self._send(call)
        self._were_up.add(channel)

    def open_gate(self) -> None:
        """Send what is unsent; whatever is asked from now on leaves at once."""
        self._gate = None
        self._send_unsent()

    def shut_gate(self) -> None:
        """Let nothing leave."""
        self._gate = ()

    def on_new_epoch(self, epoch: str) -> None:
        """Give up what was asked of a server that is no more, but for what the new one answers rightly."""
        self.epoch = epoch
        for call in self._calls.on_new_epoch(self._loop.time(), lambda call: call.payload.is_sent).over:
            self._fail(
                call, ServerLost(f"the server was replaced: whether {call.method} was done is not known")
            )

    def fail_all(self, error: ExecZMQError) -> None:
        """Answer everything that is open with an error."""
        self.fail_each(lambda _: error)

    def fail_each(self, reason: Callable[[PendingCall], ExecZMQError]) -> None:
        """Answer everything that is open with an error of its own."""
        for call in self._calls.fail_all():
            self._fail(call, reason(call))

    def statistics(self) -> dict[str, int]:
        """Return how many requests wait, and how many replies came late or were refused."""
        return {"calls": len(self._calls), "late": self._calls.late, "refused_replies": self._refused}

    def close(self, error: ExecZMQError) -> None:
        """Answer everything with an error and stop the timer; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self.fail_all(error)

    def _send(self, call: PendingCall) -> None:
        if self._gate is not None and call.method not in self._gate:
            self._unsent[call] = None
            return
        method, request = METHODS[call.method], call.payload
        if method.epoch:
            request.content["epoch"] = self.epoch
        frames = self._codec.encode(
            f"{call.method}_request", request.content, buffers=request.buffers, msg_id=call.msg_id
        )
        if self._transmit(method.socket, frames):
            request.is_sent = True
            self._unsent.pop(call, None)
        else:
            self._unsent[call] = None

    def _send_unsent(self) -> None:
        for call in list(self._unsent):
            self._send(call)

    def _fail(self, call: PendingCall, error: ExecZMQError) -> None:
        self._unsent.pop(call, None)
        call.payload.on_done(error)

    def _arm(self, at: float | None) -> None:
        """See to it that the timer rings at `at` at the latest; one that rings early costs little."""
        if at is None or (self._timer is not None and self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        due = self._calls.due(self._loop.time())
        for call in due.again:
            self._send(call)
        for call in due.over:
            self._fail(call, RequestTimeout(f"the server has not answered {call.method} in time"))
        self._arm(self._calls.next_due())
