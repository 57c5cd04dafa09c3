"""Own how one consumer follows one process: broadcasts and pages become every event, once and in order.

The rules are those of `protocol.cursor`; this module asks for the pages, keeps what the consumer has not
taken yet within a bound, and looks at the log when a process has been quiet for long.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque

from execzmq.client.core import Connection
from execzmq.client.pages import PageGone, page_of
from execzmq.client.requester import Answer, PendingCall
from execzmq.client.topics import Heard
from execzmq.errors import ExecZMQError
from execzmq.protocol.cursor import Cursor, Step
from execzmq.protocol.wire import Message
from execzmq.settings import LONG_POLL, PAGE, PAGE_EVENTS, QUIET_AFTER
from execzmq.types.events import Closed, Event, Exited, Output
from execzmq.types.results import ExitResult

RELEASED = (1 << 63) - 1
"""Told as a seq: the starter follows no more, so the command need not wait for it."""
_EVENT_COST = 256
"""Bytes that an event counts besides its data."""
_MOST_HELD = PAGE + PAGE_EVENTS * _EVENT_COST
"""Bytes that may wait for the consumer while more is asked for: those of any one page."""
_SPREAD = 0.2
"""Part of the quiet time by which followers ask at different times."""
_EARLY_BYTES = 256 * 1024
"""Bytes of broadcasts that are kept for whoever may follow a process that was just started."""
_EARLY_COST = 512
"""Bytes that a broadcast counts there besides those of its frames."""
_LAST_WORDS = frozenset({b"closed", b"failed"})
"""Topics after which nothing follows but repetitions."""
_ENDS = {"exited": _LAST_WORDS | {b"exited"}, "closed": _LAST_WORDS}
"""Topics that tell of an end, by the end that is waited for."""


class Early:
    """The first broadcasts of a process that this client starts, kept until somebody follows it.

    So that no page has to be asked for what has come already. Nothing is decoded, as often nobody follows it.
    Beyond a bound all are dropped, since the log has them.
    """

    def __init__(self, connection: Connection, process_id: str) -> None:
        self._connection = connection
        self._process_id = process_id
        self._heard: list[Heard] | None = []
        self._bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        connection.topics.listen(process_id, self)

    def hear(self, heard: Heard) -> None:
        """Keep a broadcast; after what is the last one by its topic nothing is listened to any more."""
        if self._heard is None:
            return
        self._heard.append(heard)
        self._bytes += _EARLY_COST + sum(map(len, heard.frames))
        if self._bytes > _EARLY_BYTES:
            self.close()
        elif heard.word in _LAST_WORDS:
            self._connection.topics.leave(self._process_id, self)
        if heard.word in _ENDS["exited"]:
            self._wake()

    def resume(self) -> None:
        """Drop all: what came meanwhile has been missed."""
        self.close()

    def fail(self, _error: ExecZMQError) -> None:
        """Drop all; whoever follows will learn why."""
        self.close()

    async def ended(self, until: str, instance: int, seconds: float) -> ExitResult | None:
        """Return how the process has ended as soon as that is heard; `None` if none is in `seconds`.

        Args:
            until: `exited` or `closed`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (result := self._end(until, instance)) is None:
            left = deadline - loop.time()
            if self._heard is None or left <= 0:
                return None
            waiter = loop.create_future()
            self._waiters.append(waiter)
            await asyncio.wait((waiter,), timeout=left)
        return result

    def _end(self, until: str, instance: int) -> ExitResult | None:
        words = _ENDS[until]
        for heard in self._heard or ():
            if heard.word in words and (announced := heard.announcement()) is not None:
                event = announced.event
                if announced.instance == instance and isinstance(event, Exited | Closed):
                    return event.result
        return None

    def take(self) -> list[Heard] | None:
        """Return what was heard and hear no more; `None` where something is missing."""
        heard = self._heard
        self.close()
        return heard

    def close(self) -> None:
        """Drop all and hear no more; idempotent."""
        self._heard = None
        self._connection.topics.leave(self._process_id, self)
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Follower:
    """An iterator over the events of a process for one consumer; ends after `Closed` or `Failed`.

    At most two pages are in memory: the one that the consumer has not taken yet, and the one that was asked
    for when it came. `aclose`, or the end, leaves nothing behind; cancelling a wait loses no event.

    Args:
        after_seq: last event that is not wanted any more.
        early: what was heard since the start of the process, where it begins with that.
        tell_every: bytes of output after which the server is told how far this client has read; `None` = it
            does not wait for this client.
    """

    def __init__(
        self,
        connection: Connection,
        process_id: str,
        instance: int,
        after_seq: int = 0,
        *,
        early: Early | None = None,
        tell_every: int | None = None,
    ) -> None:
        self._connection = connection
        self._process_id = process_id
        self._cursor = Cursor(after_seq, instance)
        self._early = early
        self._tell_every = tell_every
        self._untold = 0
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._bytes = 0
        self._ready: deque[Event] = deque()
        self._wanted: int | None = None
        self._wait = 0.0
        self._read: PendingCall | None = None
        self._asked = after_seq
        self._opens_files = connection.opens_files
        self._has_begun = False
        self._has_left = False
        self._is_held = False
        self._error: ExecZMQError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._heard_at = self._loop.time()
        self._quiet_timer: asyncio.TimerHandle | None = None

    @property
    def seq(self) -> int:
        """Return the last event that has come, whether it was taken or not."""
        return self._cursor.seq

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Event:
        if not self._ready:
            self._ready.extend(await self.next_batch())
            if not self._ready:
                raise StopAsyncIteration
        return self._ready.popleft()

    async def next_batch(self) -> list[Event]:
        """Return all events that have come since the last batch, waiting for one; empty after the last.

        Raises:
            ProcessNotFound: it was forgotten. InstanceChanged: another life has taken its id.
            ServerLost, RequestTimeout: no server has answered in the stated time. ClientClosed.
        """
        if not self._has_begun:
            await self._begin()
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._has_left:
                return []
            await self._wait_for_news()
        batch, self._events, self._bytes = self._events, [], 0
        self._ask_wanted()
        return batch

    async def aclose(self) -> None:
        """Follow no more; a waiting `next_batch` returns. Idempotent."""
        self._leave()
        self._events = []
        self._ready.clear()

    def hear(self, heard: Heard) -> None:
        """Take a broadcast."""
        announcement = heard.announcement()
        if announcement is None:
            return
        self._heard_at = self._loop.time()
        if announcement.event is None or self._bytes > _MOST_HELD:
            # A consumer that is slow gets pages, which wait for it.
            step = self._cursor.behind(announcement.seq, announcement.instance)
            if step.read_after is None and self._untold:
                # Nothing is to be asked for, but the command may wait to hear how far this client has come.
                self._untold = 0
                self._connection.renew()
            self._do(step)
        else:
            self._do(self._cursor.accept(announcement.event, announcement.instance))

    def resume(self) -> None:
        """Look at the log: broadcasts may have been missed."""
        self._do(self._cursor.ask())

    def fail(self, error: ExecZMQError) -> None:
        """End with an error, after what has come before it."""
        if not self._has_left:
            self._error = error
            self._leave()

    async def _begin(self) -> None:
        connection, process_id = self._connection, self._process_id
        connection.check_usable()
        self._has_begun = True
        self._heard_at = self._loop.time()
        early, self._early = self._early, None
        heard = early.take() if early is not None else None
        for one in heard or ():
            self.hear(one)
        if self._has_left:
            return
        self._look_after_silence()
        connection.topics.listen(process_id, self)
        if heard is not None:
            return
        self._is_held = connection.topics.hold(process_id)
        try:
            if self._is_held:
                await connection.topics.settle()
        except ExecZMQError as error:
            self.fail(error)
        finally:
            # Also where the consumer was cancelled: its next wait finds the page.
            if not self._has_left:
                self.resume()

    async def _wait_for_news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _do(self, step: Step) -> None:
        """Do what the cursor says: ask for a page first, so that it comes while the consumer is at work."""
        if self._has_left:
            return
        if step.events:
            self._take(step.events)
        if step.read_after is not None:
            self._wanted = step.read_after
        self._ask_wanted()
        if self._cursor.is_finished:
            self._leave()
        elif step.events:
            self._wake()

    def _take(self, events: list[Event]) -> None:
        self._events += events
        output = sum([len(event.data) for event in events if type(event) is Output])
        self._bytes += output + _EVENT_COST * len(events)
        if self._tell_every is not None:
            self._connection.cursors.received(self._process_id, self._cursor.instance, self._cursor.seq)
            self._untold += output
            if self._untold >= self._tell_every:
                self._untold = 0
                self._connection.renew()

    def _ask_wanted(self) -> None:
        """Send the read that is due, if one is, unless the consumer has a page to take before."""
        if self._wanted is None or self._bytes > _MOST_HELD or self._has_left:
            return
        content = {
            "process_id": self._process_id,
            "instance": self._cursor.instance,
            "after_seq": self._wanted,
            "wait": self._wait,
            "open": self._connection.open_reads(),
        }
        if self._opens_files:
            content["by_file"] = True
        self._asked = self._wanted
        wait, self._wait, self._wanted, self._untold = self._wait, 0.0, None, 0
        try:
            self._read = self._connection.request("read", content, self._on_page, wait=wait)
        except ExecZMQError as error:
            self.fail(error)

    def _on_page(self, answer: Answer) -> None:
        self._read = None
        self._heard_at = self._loop.time()
        if not isinstance(answer, Message):
            self.fail(answer)
            return
        try:
            step = self._cursor.on_page(page_of(answer))
        except PageGone:
            # Dropped meanwhile, or out of this process's sight: from now on pages come over the wire.
            self._opens_files, self._wanted = False, self._asked
            self._ask_wanted()
            return
        except ExecZMQError as error:
            self.fail(error)
            return
        self._do(step)

    def _look_after_silence(self) -> None:
        """Set the timer a little apart from those of others, so that not all ask at once."""
        at = self._heard_at + QUIET_AFTER * (1 + _SPREAD * random.random())
        self._quiet_timer = self._loop.call_at(at, self._on_quiet)

    def _on_quiet(self) -> None:
        """Ask, by a long poll, where nothing has been heard for long: the last broadcasts may be lost."""
        if self._loop.time() - self._heard_at >= QUIET_AFTER:
            self._wait = LONG_POLL
            self._do(self._cursor.ask())
            self._wait = 0.0
            self._heard_at = self._loop.time()
        if not self._has_left:
            self._look_after_silence()

    def _leave(self) -> None:
        """Let go of everything that the connection holds for this follower; idempotent."""
        if self._has_left:
            return
        self._has_left = True
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        if self._early is not None:
            self._early.close()
        if self._read is not None:
            self._connection.drop(self._read)
        self._connection.topics.leave(self._process_id, self)
        if self._is_held:
            self._connection.topics.release(self._process_id)
        if self._tell_every is not None:
            self._tell_last()
        self._wake()

    def _tell_last(self) -> None:
        """Tell that the command need not wait any more: soon where it goes on, else with the next lease."""
        is_finished = self._cursor.is_finished
        seq = self._cursor.seq if is_finished else RELEASED
        self._connection.cursors.received(self._process_id, self._cursor.instance, seq, is_over=True)
        if not is_finished:
            self._connection.renew()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
