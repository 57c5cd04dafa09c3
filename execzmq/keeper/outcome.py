"""Own a result that is to come: who asked is told in the turn of the loop in which it comes, in order.

A future tells in the next turn, which costs every start of a command two of them. Knows nothing of what the
result is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class Outcome(Generic[T]):
    """A value, or the error that came in its place.

    It can be awaited; cancelling that drops the waiting only.

    Attributes:
        is_over: it has come, or nobody wants it any more.
    """

    __slots__ = ("_callbacks", "_error", "_value", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._callbacks: list[tuple[Callable[[T], object], Callable[[Exception], object]]] = []
        self._value: T | None = None
        self._error: Exception | None = None

    def then(self, succeeded: Callable[[T], object], failed: Callable[[Exception], object]) -> None:
        """Call one of the two when it comes, at once where it has; neither after `cancel`."""
        if self.is_over:
            self._tell(succeeded, failed)
        else:
            self._callbacks.append((succeeded, failed))

    def succeed(self, value: T) -> None:
        """Tell everyone the value; no effect once it is over."""
        if not self.is_over:
            self._value = value
            self._end()

    def fail(self, error: Exception) -> None:
        """Tell everyone the error; no effect once it is over."""
        if not self.is_over:
            self._error = error
            self._end()

    def cancel(self) -> None:
        """Want it no more: nobody is told."""
        self._callbacks.clear()
        self.is_over = True

    def __await__(self) -> Generator[object, None, T]:
        if self.is_over:
            yield None  # or who tries again and again would hold up the loop
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def succeeded(value: T) -> None:
            if not done.done():
                done.set_result(value)

        def failed(error: Exception) -> None:
            if not done.done():
                done.set_exception(error)

        self.then(succeeded, failed)
        return (yield from done)

    def _end(self) -> None:
        self.is_over = True
        callbacks, self._callbacks = self._callbacks, []
        for succeeded, failed in callbacks:
            self._tell(succeeded, failed)

    def _tell(self, succeeded: Callable[[T], object], failed: Callable[[Exception], object]) -> None:
        if self._error is not None:
            failed(self._error)
        else:
            succeeded(self._value)  # type: ignore[arg-type]  # it is a T where there is no error
