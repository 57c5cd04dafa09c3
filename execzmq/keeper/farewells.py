"""The commands that a server wants no more: told to the keeper many at a time, since nobody waits for it.

Owns the timer until the next telling. It must not know sockets or messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_SECONDS = 0.02
_MOST = 64


class Farewells:
    """Collect ids and hand them on, `_SECONDS` after the first or when there are `_MOST`.

    Args:
        tell: called with the ids.
    """

    def __init__(self, tell: Callable[[list[str]], None]) -> None:
        self._tell = tell
        self._ids: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def add(self, process_id: str) -> None:
        """Have one more told."""
        self._ids.append(process_id)
        if len(self._ids) >= _MOST:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(_SECONDS, self.flush)

    def flush(self) -> None:
        """Tell now what has not been told; idempotent."""
        ids = self._ids
        self.drop()
        if ids:
            self._tell(ids)

    def drop(self) -> None:
        """Tell nothing more of what has been added so far; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ids = []
