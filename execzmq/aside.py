"""Own work that may hang, beside a loop: each in a thread of its own, and nobody must wait for its end.

Not the loop's pool: at its end a loop waits without a limit for what runs there.
"""

from __future__ import annotations

import _thread
import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], seconds: float, drop: Callable[[T], object] | None = None) -> T:
    """Return what `work` does, which a thread does.

    Cancelled, or too late, the thread goes on to its own end.

    Args:
        seconds: time that it may take.
        drop: gets what nobody waits for any more.

    Raises:
        TimeoutError: it takes longer. OSError: there is no thread for it. What `work` raises.
    """
    done = _begin(work, drop)
    try:
        async with asyncio.timeout(seconds):
            return await done
    except BaseException:
        if drop is not None and done.done() and not done.cancelled() and done.exception() is None:
            drop(done.result())  # it came together with the cancellation
        raise


class Aside(Generic[T]):
    """Does one piece of work at a time, however many wait for it.

    Args:
        work: what is done; runs in a thread.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._under_way: asyncio.Future[T] | None = None

    async def do(self) -> T:
        """Return what the work does; cancelling leaves it to the others who wait for it.

        Raises whatever the work does.
        """
        if self._under_way is None or self._under_way.done():
            self._under_way = _begin(self._work, None)
            self._under_way.add_done_callback(_retrieve)
        return await asyncio.shield(self._under_way)


def _begin(work: Callable[[], T], drop: Callable[[T], object] | None) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            _tell(loop, _fail, done, error)
        else:
            if not _tell(loop, _succeed, done, value, drop) and drop is not None:
                drop(value)

    # Not `threading.Thread`: its `start` waits for the first step, for which a busy machine takes long.
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    return done


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


def _fail(done: asyncio.Future[T], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _retrieve(done: asyncio.Future[T]) -> None:
    """Look at an error that all who waited for it may have given up."""
    if not done.cancelled():
        done.exception()
