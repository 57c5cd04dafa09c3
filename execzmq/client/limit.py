"""Own the net under a time limit: the server keeps it, but may be gone, or have no room to tell the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from execzmq.types.results import ExitResult

T = TypeVar("T")

NET = 5.0
"""Seconds after the server's time limit at which the client stops believing that the server keeps it."""


async def within(
    seconds: float | None, work: Awaitable[T], end: Callable[[], Awaitable[None]]
) -> T | ExitResult:
    """Return what `work` returns; where it goes on `NET` seconds after the time limit, that limit's result.

    Args:
        seconds: the server's time limit, its grace and its wait for streams with it; `None` = no limit.
        end: ends the command, in case that nobody has.
    """
    scope = asyncio.timeout(None if seconds is None else seconds + NET)
    try:
        async with scope:
            return await work
    except TimeoutError:
        if not scope.expired():
            raise
    await end()
    return ExitResult(cause="timed_out")
