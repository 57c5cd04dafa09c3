"""Own work that may hang, beside a loop: in a thread of its own, shared by all who ask while it goes on.

Not the loop's pool: at its end a loop waits without a limit for what runs there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """Does one piece of work at a time, however many wait for it.

    Args:
        work: what is done; runs in a thread.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._name = name
        self._under_way: asyncio.Future[T] | None = None

    async def do(self) -> T:
        """Return what the work does; cancelling leaves it to the others who wait for it.

        Raises whatever the work does.
        """
        if self._under_way is None or self._under_way.done():
            loop = asyncio.get_running_loop()
            self._under_way = loop.create_future()
            arguments = (loop, self._under_way)
            threading.Thread(target=self._do, args=arguments, name=self._name, daemon=True).start()
        return await asyncio.shield(self._under_way)

    def _do(self, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]) -> None:
        try:
            result = self._work()
        except Exception as error:
            outcome = partial(answer.set_exception, error)
        else:
            outcome = partial(answer.set_result, result)
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(outcome)
