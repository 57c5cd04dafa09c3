"""Own the requests of a client that have no reply yet: when to repeat them, and what a lost server means.

A request is repeated under the same id, so that the server does the work once. Knows no socket and no clock;
what a call carries (`payload`) is its owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from execzmq.protocol.methods import METHODS
from execzmq.settings import REPLY_KEPT, RESEND_AFTER

P = TypeVar("P")

_SURVIVES_EPOCH = frozenset({"start", "write"})
"""Changing methods that a new server answers rightly: one by its process_id, the other by its offset."""


@dataclass(slots=True, eq=False)
class Call(Generic[P]):
    """One request that waits for its reply.

    Args:
        deadline: when it is given up; `None` = never, for methods that may rightly take long.
        opened_at: when it was first sent.
        patience: seconds from one sending to the next.
        resend_at: when it is sent again; `None` = not any more.
    """

    msg_id: str
    method: str
    payload: P
    deadline: float | None
    opened_at: float
    patience: float
    resend_at: float | None = None

    @property
    def due_at(self) -> float | None:
        """Return when something must be done about it, or `None`."""
        if self.deadline is None or self.resend_at is None:
            return self.deadline if self.resend_at is None else self.resend_at
        return min(self.deadline, self.resend_at)


@dataclass(slots=True)
class Due(Generic[P]):
    """Calls to be sent again, and calls whose time is over."""

    again: list[Call[P]] = field(default_factory=list)
    over: list[Call[P]] = field(default_factory=list)


class Calls(Generic[P]):
    """All calls of one client, by message id.

    Attributes:
        late: replies that came after their call was given up, or twice.
    """

    def __init__(self, resend_after: float = RESEND_AFTER, repeat_for: float = REPLY_KEPT) -> None:
        self._resend_after = resend_after
        # A repeat must arrive while the answer is kept, so the last one leaves a while before.
        self._repeat_for = repeat_for - resend_after
        self._calls: dict[str, Call[P]] = {}
        self.late = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call[P]]:
        """Go over the calls as they are now, oldest first, such as to repeat all after a reconnect."""
        return iter(list(self._calls.values()))

    def open(
        self, msg_id: str, method: str, payload: P, now: float, deadline: float | None, wait: float = 0.0
    ) -> Call[P]:
        """Remember a request that is sent at `now`.

        Args:
            deadline: time at which it is given up; `None` = never.
            wait: seconds that the server may rightly let pass before it answers, as with a long poll.
        """
        call = Call(msg_id, method, payload, deadline, now, wait + self._resend_after)
        call.resend_at = now + call.patience
        self._calls[msg_id] = call
        return call

    def match(self, msg_id: object) -> Call[P] | None:
        """Return the call that a reply answers and forget it; `None` where it comes late or twice."""
        call = self._calls.pop(msg_id, None) if isinstance(msg_id, str) else None
        if call is None:
            self.late += 1
        return call

    def drop(self, msg_id: str) -> None:
        """Forget a call whose caller does not wait any more; its reply will count as late."""
        self._calls.pop(msg_id, None)

    def open_ids(self, method: str, most: int | None = None) -> list[str]:
        """Return the ids of the `most` newest calls of one method, such as open reads; `None` = all."""
        found = (call.msg_id for call in reversed(self._calls.values()) if call.method == method)
        return list(islice(found, most))

    def due(self, now: float) -> Due[P]:
        """Return what must be done by now; calls whose time is over are forgotten."""
        due: Due[P] = Due()
        for call in list(self._calls.values()):
            if call.deadline is not None and call.deadline <= now:
                del self._calls[call.msg_id]
                due.over.append(call)
            elif call.resend_at is not None and call.resend_at <= now:
                if self._may_repeat(call, now):
                    due.again.append(call)
                call.resend_at = self._next_resend(call, now)
        return due

    def next_due(self) -> float | None:
        """Return the time of the next `due` that has something to say, or `None`."""
        return min((at for call in self._calls.values() if (at := call.due_at) is not None), default=None)

    def on_new_epoch(self, now: float, is_sent: Callable[[Call[P]], bool] = lambda _: True) -> Due[P]:
        """Sort the calls that were meant for a server that is no more.

        `again` holds what the new server answers rightly, and what was never sent: its owner sends it with
        the new epoch. `over` is forgotten: whether the work was done is not known.
        """
        due: Due[P] = Due()
        for call in list(self._calls.values()):
            if _lasts(call.method) or not is_sent(call):
                call.opened_at = now
                call.resend_at = now + call.patience
                due.again.append(call)
            else:
                del self._calls[call.msg_id]
                due.over.append(call)
        return due

    def lasting(self, socket: str) -> list[Call[P]]:
        """Return the calls of one socket that any life of the server answers rightly, oldest first."""
        return [call for call in self if METHODS[call.method].socket == socket and _lasts(call.method)]

    def fail_all(self) -> list[Call[P]]:
        """Forget every call and return them."""
        calls = list(self._calls.values())
        self._calls.clear()
        return calls

    def _may_repeat(self, call: Call[P], now: float) -> bool:
        return METHODS[call.method].idempotent or now <= call.opened_at + self._repeat_for

    def _next_resend(self, call: Call[P], now: float) -> float | None:
        following = now + call.patience
        return following if self._may_repeat(call, following) else None


def _lasts(method: str) -> bool:
    return METHODS[method].idempotent or method in _SURVIVES_EPOCH
