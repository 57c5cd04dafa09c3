"""Own the one bridge from blocking code to async code: an event loop on a daemon thread.

Knows nothing of what runs on the loop. Whoever is blocked in `call` is in a thread of the caller's; a running
loop there (a notebook's) is not touched.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from execzmq import settings
from execzmq.errors import ClientClosed

T = TypeVar("T")

CLEANUP_TIME = settings.CALL_TIMEOUT + 5.0
"""Seconds that an interrupted call waits for its work to clean up; each step of it has a shorter limit."""


class _Call(Generic[T]):
    """One coroutine on its way to the loop and its outcome on the way back."""

    __slots__ = (
        "_coroutine",
        "_finished",
        "_has_begun",
        "_is_over",
        "_is_submitted",
        "_task",
        "_value",
        "cancelled",
        "error",
    )

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._finished = threading.Lock()  # a bare lock is the cheapest thing a thread can wait for
        self._finished.acquire()
        self._task: asyncio.Task[None]
        self._is_submitted = self._has_begun = self._is_over = False
        self._value: T
        self.error: BaseException | None = None
        self.cancelled = False

    def begin(self, loop: asyncio.AbstractEventLoop, under_way: set[asyncio.Task[Any]]) -> None:
        """Start the coroutine, as a task that stands in `under_way` to its end; on the loop's thread."""
        self._is_submitted = True
        self._task = loop.create_task(self._run(under_way))
        under_way.add(self._task)

    def refuse(self, error: BaseException) -> None:
        """End with an error without running; on any thread."""
        self._is_submitted = True
        self._coroutine.close()
        self.error = error
        self._finish()

    def cancel(self) -> None:
        """Cancel the work, also if it has not begun; on the loop's thread."""
        self.cancelled = True
        if self._has_begun:  # a task that is cancelled before would end without a word to the waiter
            self._task.cancel()
        elif not self._is_submitted and self.error is None:
            self.refuse(asyncio.CancelledError())  # the interrupt came before it was handed over

    def wait(self, timeout: float = -1) -> None:
        """Wait for the outcome, at most `timeout` seconds where it is not negative."""
        # An interrupt may have fallen between these two: then nobody releases the lock any more.
        if not self._is_over and self._finished.acquire(timeout=timeout):
            self._finished.release()

    def outcome(self) -> T:
        """Return what the coroutine returned, or raise what it raised."""
        if self.error is None:
            return self._value
        try:
            if isinstance(self.error, asyncio.CancelledError):
                raise ClientClosed("the client was closed while the call was under way")
            raise self.error
        finally:
            self.error = None  # its traceback holds this frame

    async def _run(self, under_way: set[asyncio.Task[Any]]) -> None:
        self._has_begun = True
        try:
            if self.cancelled:
                self._coroutine.close()
                raise asyncio.CancelledError
            self._value = await self._coroutine
        except BaseException as error:
            self.error = error
        finally:
            under_way.discard(self._task)  # a callback of the task's would cost another turn of the loop
            self._finish()

    def _finish(self) -> None:
        self._is_over = True
        self._finished.release()


class LoopThread:
    """An event loop on a thread of its own, for callers that block.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a finalizer may call `post` in the middle of a call
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.wait()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for `call_soon_threadsafe`."""
        return self._loop

    @property
    def is_usable(self) -> bool:
        """Whether a call can be made: not closed, and not in a forked child."""
        return not self._closed and os.getpid() == self._pid

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on the loop's own thread, where nothing may block."""
        return threading.get_ident() == self._thread.ident

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result; usable from several threads at once.

        KeyboardInterrupt, and any other exception in the waiting thread, cancels the coroutine, waits until
        it has cleaned up and is raised again. A second one ends that wait, not the cleanup.

        Raises:
            ClientClosed: the loop was closed before or during the call, or belongs to the parent of a fork.
            RuntimeError: called from the loop's own thread, which would wait for itself.
        """
        call = _Call(coroutine)
        try:
            self._submit(call)
            call.wait()
        except (ClientClosed, RuntimeError):
            raise
        except BaseException:
            self._abandon(call)
            raise
        return call.outcome()

    def post(self, function: Callable[[], object]) -> None:
        """Call a function on the loop and wait for nothing; usable on any thread, in finalizers too.

        Does nothing where the loop is closed or belongs to the parent of a fork.
        """
        with self._lock:
            if self.is_usable:
                self._loop.call_soon_threadsafe(function)

    def hand_over(self, function: Callable[[], object]) -> None:
        """Call a function on the loop and wait for nothing, where the caller will wait for what it does.

        Raises:
            ClientClosed, RuntimeError: as `call`; the function is not called.
        """
        if self.is_own_thread:
            raise RuntimeError("a blocking call was made on the client's own event loop thread")
        with self._lock:
            if self.is_usable:
                self._loop.call_soon_threadsafe(function)
                return
        raise ClientClosed(
            "the client is closed" if os.getpid() == self._pid else "a client cannot be used after a fork"
        )

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until it is done: the loop itself holds its tasks weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel what runs, wait for its cleanup and end the thread; idempotent.

        Calls under way in other threads raise `ClientClosed`. On the loop's own thread and in a forked child
        it does not wait.
        """
        with self._lock:
            closed, self._closed = self._closed, True
            if not closed and os.getpid() == self._pid:
                self._loop.call_soon_threadsafe(self._stop.set)
        if os.getpid() == self._pid and not self.is_own_thread:
            self._thread.join(CLEANUP_TIME)

    def _submit(self, call: _Call[Any]) -> None:
        try:
            self.hand_over(partial(self._begin, call))
        except (ClientClosed, RuntimeError):  # an interrupt may come when it has been handed over
            call.refuse(RuntimeError())
            raise

    def _abandon(self, call: _Call[Any]) -> None:
        with self._lock:
            if self.is_usable:
                self._loop.call_soon_threadsafe(call.cancel)
        call.wait(CLEANUP_TIME)

    def _begin(self, call: _Call[Any]) -> None:
        if self._closed or call.cancelled:
            call.refuse(asyncio.CancelledError())
        else:
            call.begin(self._loop, self._tasks)

    def _main(self, started: threading.Event) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._stop = asyncio.Event()
            self._loop.call_soon(started.set)
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._stop.wait()
