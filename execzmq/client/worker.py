"""Own one daemon thread that makes blocking calls for a loop, one after the other.

Not the loop's own pool: its threads are joined at the interpreter's exit, and one that is stuck in a write
to a stopped terminal would hold the exit up.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Worker:
    """A thread for blocking calls, made at the first one.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, function: Callable[[], T]) -> T:
        """Return what `function` returns, or raise what it raises.

        Cancelling drops the outcome; the call itself goes to its end, and those after it wait for that.
        """
        future = asyncio.get_running_loop().create_future()
        self._start()
        # A notebook's streams find their cell by a context variable.
        self._jobs.put((partial(contextvars.copy_context().run, function), future))
        result: T = await future
        return result

    def close(self, last: Callable[[], None]) -> None:
        """Call `last` after the jobs under way, then end the thread; waits for neither. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._thread is None:
            last()
        else:
            self._jobs.put(last)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name=self._name, daemon=True)
            self._thread.start()

    def _main(self) -> None:
        while isinstance(job := self._jobs.get(), tuple):
            self._do(*job)
            del job  # what it wrote or read may be large
        job()

    def _do(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            value, error = function(), None
        except BaseException as raised:
            value, error = None, raised
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            future.get_loop().call_soon_threadsafe(_settle, future, value, error)


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
