"""Own work that may wait for a file system for ever: a thread of its own does it, in bounded time.

Not in the loop's pool: at its end a loop waits without a limit for what runs there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], seconds: float, drop: Callable[[T], object] | None = None) -> T:
    """Return what `work` does, which a thread does.

    Cancelled, or too late, the thread goes on to its own end.

    Args:
        seconds: time that it may take.
        drop: gets what nobody waits for any more.

    Raises:
        TimeoutError: it takes longer. What `work` raises.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            _tell(loop, _fail, done, error)
        else:
            if not _tell(loop, _succeed, done, value, drop) and drop is not None:
                drop(value)

    threading.Thread(target=run, name="execzmq-aside", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> bool:
    """Call in the loop, if it has not ended meanwhile; tell whether that will be."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)
        return True
    return False


def _succeed(done: asyncio.Future[T], value: T, drop: Callable[[T], object] | None) -> None:
    if not done.done():
        done.set_result(value)
    elif drop is not None:
        drop(value)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
