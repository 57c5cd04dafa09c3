"""Own the way of events from the loop to a blocking caller's `for`.

A task on the loop reads ahead, up to a bound in bytes, so that the caller's thread takes what is there
without a hop for each event.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Generic, TypeVar

from execzmq import settings
from execzmq.client.portal import LoopThread
from execzmq.errors import ClientClosed
from execzmq.types.events import Output

T = TypeVar("T")

MOST_AHEAD = 2 * settings.PAGE
"""Bytes that may wait for the caller."""
ITEM_COST = 200
"""Bytes that one item counts besides its data."""


def iterate(portal: LoopThread, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield what `source` yields on the loop; closing or dropping the generator closes `source`.

    Raises:
        ClientClosed: the client was closed meanwhile, or this is a forked child. What `source` raises.
    """
    ahead = _ReadAhead(portal, source)
    try:
        portal.hand_over(ahead.begin)
        yield from ahead.items()
    finally:
        ahead.stop()


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _ReadAhead(Generic[T]):
    def __init__(self, portal: LoopThread, source: AsyncGenerator[T, None]) -> None:
        self._portal = portal
        self._source = source
        self._queue: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._put = 0  # written by the loop's thread alone
        self._taken = 0  # written by the caller's thread alone
        self._is_waiting = False
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._read())

    def items(self) -> Generator[T, None, None]:
        while True:
            if self._queue.empty() and not self._portal.is_usable:
                raise ClientClosed("the client was closed, or this is a forked child")
            item = self._queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            self._taken += _cost(item)
            if self._is_waiting and self._put - self._taken <= MOST_AHEAD // 2:
                self._portal.post(self._room.set)
            yield item

    def stop(self) -> None:
        self._portal.post(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        error: BaseException | None = None
        try:
            async with aclosing(self._source) as source:
                async for item in source:
                    self._queue.put(item)
                    self._put += _cost(item)
                    await self._wait_for_room()
        except asyncio.CancelledError:
            error = ClientClosed("the client was closed")
        except BaseException as raised:
            error = raised
        self._queue.put(_End(error))

    async def _wait_for_room(self) -> None:
        self._room.clear()
        self._is_waiting = True  # before looking: the caller looks after taking
        if self._put - self._taken > MOST_AHEAD:
            await self._room.wait()
        self._is_waiting = False


def _cost(item: object) -> int:
    if isinstance(item, Output):
        return len(item.data) + ITEM_COST
    return len(item) + ITEM_COST if isinstance(item, str) else ITEM_COST
