"""Own who waits on the loop for the next thing to happen; knows nothing of what that is."""

from __future__ import annotations

import asyncio


class Waiters:
    """Those who wait; made on a running loop."""

    __slots__ = (
        "_loop",
        "_waiting",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self, seconds: float) -> None:
        """Return at the next `wake`, or after `seconds`. Cancelling leaves nothing behind."""
        # Python 3.11's `wait_for` loses a cancellation that comes together with the event.
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        timer = self._loop.call_later(seconds, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def wake(self) -> None:
        """Let all go on who wait now."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _resolve(waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
