"""Own how all processes of a backend are ended at once, in bounded time even where something is stuck."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from execzmq.process.managed import ManagedProcess
from execzmq.process.tree import KILL_LIMIT

log = logging.getLogger("execzmq.backends")

SLACK = 3.0
"""Seconds beyond its ladder after which one that does not come to its end is left."""
LAST_STARTS = 5.0
"""Seconds in which the keeper must answer what it was asked to start before everything was to end."""
LAST_EVENTS = 1.0
"""Seconds in which the streams of ended commands must end when the backend is closed."""


async def end_all(
    ends: Sequence[Coroutine[Any, Any, object]], grace: float, held: Callable[[], list[ManagedProcess]]
) -> None:
    """End all processes, each by its ladder; return when they have ended and nothing is `held`, or cannot.

    Args:
        ends: the ladders.
        grace: seconds between their TERM and their KILL.
        held: returns what is not over, or whose streams others still hold.
    """
    await _within(LAST_STARTS + grace + KILL_LIMIT + SLACK, [asyncio.ensure_future(end) for end in ends])
    deadline = asyncio.get_running_loop().time() + LAST_EVENTS
    for process in held():
        while process in held() and asyncio.get_running_loop().time() < deadline:
            await process.wait_change(LAST_EVENTS / 20)


async def start_or_give_up(starting: Awaitable[None], give_up: Callable[[], None]) -> None:
    """Wait for a start that is under way; one that the keeper does not answer in time is given up."""
    try:
        async with asyncio.timeout(LAST_STARTS):
            await starting
    except TimeoutError:
        log.warning("the keeper does not answer; a start is given up")
        give_up()


async def cancel_all(tasks: set[asyncio.Task[object]]) -> None:
    """Cancel tasks and wait until they are no more, nor those that they have begun meanwhile."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _within(seconds: float, tasks: list[asyncio.Future[object]]) -> None:
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()  # nothing happens to one that is done
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, BaseException):
            log.error("a process could not be ended: %r", outcome)
