"""Own a start that is under way: who is to learn how it went, and tells them at once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from execzmq.errors import ExecZMQError

Callback = Callable[[ExecZMQError | None], None]


class Starting:
    """A command that the keeper has been asked for."""

    def __init__(self) -> None:
        self._callbacks: list[Callback] = []
        self._is_over = False
        self._error: ExecZMQError | None = None

    def then(self, callback: Callback) -> None:
        """Call back with the error, or `None` when the command runs; at once where that is known already."""
        if self._is_over:
            callback(self._error)
        else:
            self._callbacks.append(callback)

    def finish(self, error: ExecZMQError | None) -> None:
        """Tell how it went, without a turn of the loop in between."""
        self._is_over, self._error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)

    async def wait(self) -> None:
        """Wait until it is known. Cancelling drops the waiting only.

        Raises:
            ExecZMQError: the command could not be started.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(error: ExecZMQError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.then(tell)
        await done
