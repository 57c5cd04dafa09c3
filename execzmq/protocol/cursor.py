"""Own one reader's place in one process's log: what is delivered, what is held, when to read a page.

Broadcasts are hints that may be lost, doubled or out of order; pages are the truth. Whatever comes, a
`Cursor` hands out every event once and in order, and a `Gap` where bytes are gone. It sends nothing: each
input returns a `Step` that says what to deliver and whether to read.
"""

from __future__ import annotations

from dataclasses import dataclass

from execzmq.errors import InstanceChanged, RemoteProtocolError
from execzmq.settings import HELD_BYTES
from execzmq.types.events import Closed, Event, Failed, Gap, Output, first_seq_of, last_seq_of
from execzmq.types.results import ReadResponse

_EVENT_COST = 256
"""Bytes that an event takes besides its data, so that a flood of tiny ones is bounded too."""


@dataclass(slots=True)
class Step:
    """What the owner of a cursor does next.

    Args:
        events: to be delivered, in this order.
        read_after: `after_seq` of a page to be asked for; `None` = none. At most one is outstanding.
    """

    events: list[Event]
    read_after: int | None = None


class Cursor:
    """The place in a log after which the next event is wanted.

    Args:
        after_seq: last event that is not wanted any more; 0 = from the beginning.
        instance: life of the process_id that the seqs belong to.

    Attributes:
        seq: last event that was delivered; what a `lease` tells.
        is_finished: `Closed` or `Failed` was delivered, so nothing follows.
        is_paging: a page has been asked for and has not come.
    """

    def __init__(self, after_seq: int, instance: int) -> None:
        self.seq = after_seq
        self.instance = instance
        self.is_finished = False
        self.is_paging = False
        self._announced = 0
        self._asked_after = after_seq
        self._asked_for = 0
        self._live_bytes = 0
        self._held: dict[int, Event] = {}
        self._held_bytes = 0

    def ask(self) -> Step:
        """Read a page, unless one is on its way or nothing follows.

        For the beginning, after a reconnect, after a silence, and where another instance has been heard of:
        the answer to a read tells whether this one is over.
        """
        if self.is_paging or self.is_finished:
            return Step([])
        self.is_paging = True
        self._asked_after = self.seq
        self._asked_for = self._announced
        self._live_bytes = 0
        return Step([], self.seq)

    def accept(self, event: Event, instance: int) -> Step:
        """Take a broadcast event: deliver it, hold it behind a hole, or drop it as known."""
        if instance != self.instance:
            return self.ask()
        first = first_seq_of(event)
        if self.is_finished or first <= self.seq:
            return Step([])
        if first != self.seq + 1:
            self._announced = max(self._announced, last_seq_of(event))
            self._hold(first, event)
            return self.ask()
        delivered: list[Event] = []
        self._deliver(event, delivered)
        if self._held:
            self._deliver_held(delivered)
        self._announced = max(self._announced, self.seq)
        return Step(delivered)

    def behind(self, seq: int, instance: int) -> Step:
        """Take the word that the log has events up to `seq`, from a `behind` or a `process_tail`."""
        if instance != self.instance:
            return self.ask()
        self._announced = max(self._announced, seq)
        return self.ask() if self._announced > self.seq else Step([])

    def on_page(self, page: ReadResponse) -> Step:
        """Take the answer to the last read; without one on its way nothing happens.

        Raises:
            InstanceChanged: the page is of another life of the process; `instance` names it.
            RemoteProtocolError: the page has a hole, or the log ends before what was announced.
        """
        if not self.is_paging:
            return Step([])
        self.is_paging = False
        self._check(page)
        delivered: list[Event] = []
        self._take(page, delivered)
        self._deliver_held(delivered)
        self._announced = max(self._announced, page.last_seq)
        if self.seq >= page.last_seq and (page.closed or page.failure is not None):
            self._finish()
        again = self.ask() if self._announced > self.seq else Step([])
        return Step(delivered, again.read_after)

    def _check(self, page: ReadResponse) -> None:
        if page.instance != self.instance:
            raise InstanceChanged(
                f"process {page.process_id} has begun a new life since it was last read",
                instance=page.instance,
            )
        if page.last_seq < self._asked_for:
            raise RemoteProtocolError(f"the log ends at {page.last_seq}, and {self._asked_for} was announced")
        expected = self._asked_after + 1
        for event in page.chunks:
            if first_seq_of(event) > expected:
                raise RemoteProtocolError(f"a page has no event {expected} and no gap in its place")
            expected = max(expected, last_seq_of(event) + 1)

    def _take(self, page: ReadResponse, delivered: list[Event]) -> None:
        """Deliver what is new in a page.

        Of a gap that begins with events that have come live in the meantime, only the rest is told; their
        bytes are those that came live, less those that the page had before the gap.
        """
        live_bytes = self._live_bytes
        for event in page.chunks:
            if last_seq_of(event) > self.seq:
                self._deliver(_rest_of(event, self.seq, live_bytes), delivered)
            elif isinstance(event, Output):
                live_bytes -= len(event.data)
            elif isinstance(event, Gap):
                live_bytes -= event.bytes

    def _deliver(self, event: Event, delivered: list[Event]) -> None:
        if self.is_finished:
            return
        delivered.append(event)
        self.seq = last_seq_of(event)
        if self.is_paging and isinstance(event, Output):
            self._live_bytes += len(event.data)
        if isinstance(event, (Closed, Failed)):
            self._finish()

    def _deliver_held(self, delivered: list[Event]) -> None:
        while (event := self._held.pop(self.seq + 1, None)) is not None:
            self._held_bytes -= _cost(event)
            self._deliver(event, delivered)
        if self._held and not self.is_paging:
            self._drop_known()

    def _drop_known(self) -> None:
        self._held = {seq: event for seq, event in self._held.items() if seq > self.seq}
        self._held_bytes = sum(map(_cost, self._held.values()))

    def _hold(self, seq: int, event: Event) -> None:
        """Keep an event for later; beyond the bound it is dropped and read from the log instead."""
        cost = _cost(event)
        if seq not in self._held and self._held_bytes + cost <= HELD_BYTES:
            self._held[seq] = event
            self._held_bytes += cost

    def _finish(self) -> None:
        self.is_finished = True
        self._held.clear()
        self._held_bytes = 0


def _rest_of(event: Event, seq: int, live_bytes: int) -> Event:
    if not isinstance(event, Gap) or event.from_seq > seq:
        return event
    return Gap(seq + 1, event.to_seq, max(0, event.bytes - live_bytes), event.time)


def _cost(event: Event) -> int:
    return _EVENT_COST + (len(event.data) if isinstance(event, Output) else 0)
