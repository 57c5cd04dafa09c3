"""Own how far this client has read the processes that wait for it, and when the next lease tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from execzmq.settings import LEASE, STARTER_GONE

_OVER_UNTOLD = 200
"""Ended processes after which a lease is due at once, so that none grows large."""


class ToldCursors:
    """What the leases of one client session tell, and the clock by which they are renewed.

    Args:
        renew: renews the lease; called when that is due.
    """

    def __init__(self, renew: Callable[[], None]) -> None:
        self._renew = renew
        self._loop = asyncio.get_running_loop()
        self._cursors: dict[str, tuple[int, int]] = {}
        self._over: set[str] = set()
        self._seconds = LEASE
        self._timer: asyncio.TimerHandle | None = None

    def received(self, process_id: str, instance: int, seq: int, *, is_over: bool = False) -> None:
        """Note how far a process has been read; `is_over`: once this has been told, nothing more is."""
        before = self._cursors.get(process_id)
        if before is None or before[0] != instance or before[1] < seq:
            self._cursors[process_id] = (instance, seq)
        if is_over:
            self._over.add(process_id)
            if len(self._over) >= _OVER_UNTOLD:
                self._renew()

    def tell(self) -> dict[str, list[int]]:
        """Return what a lease tells now, and forget what has been told for the last time."""
        told = {process_id: list(cursor) for process_id, cursor in self._cursors.items()}
        for process_id in self._over:
            del self._cursors[process_id]
        self._over.clear()
        return told

    def tick(self) -> None:
        """Be called again after a third of the time in which the server must hear of this client."""
        self.stop()
        self._timer = self._loop.call_later(self._seconds / 3, self._renew)

    def hurry(self) -> None:
        """Renew often from now on: a starter that is silent for longer counts as gone."""
        if self._seconds != STARTER_GONE:
            self._seconds = STARTER_GONE
            if self._timer is not None:
                self.tick()

    def stop(self) -> None:
        """Renew no more; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
