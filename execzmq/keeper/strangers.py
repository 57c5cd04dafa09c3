"""The ends of commands that another keeper has started and that this process cannot reap.

Owns the wait for them. The kernel tells the status of a process that somebody else has reaped to
who holds its pidfd (Linux 6.15); where it does not, nobody knows it. It must not know what is made of an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from execzmq.keeper.loop import Loop
from execzmq.keeper.pidfds import exit_status
from execzmq.keeper.table import Record

_PATIENCE_SECONDS = 10.0
"""Time within which a parent reaps: before it has, there is no status; after it, there will be none."""
_RETRY_SECONDS = 0.02


class Strangers:
    """Wait for the ends of adopted commands.

    Args:
        loop: which tells that one has ended.
        ended: called once for each, with its status or None.
    """

    def __init__(self, loop: Loop, ended: Callable[[Record, int | None], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._unreaped: dict[str, tuple[Record, float]] = {}
        self._retry_at = 0.0

    def watch(self, record: Record) -> None:
        """Wait for the end of a command."""
        self._loop.watch(record.fds["pidfd"], partial(self._on_end, record))

    @property
    def patience(self) -> float | None:
        """Return the seconds after which `turn` has something to do, None if it never has."""
        return max(0.0, self._retry_at - time.monotonic()) if self._unreaped else None

    def turn(self) -> None:
        """Ask again for those that had not been reaped, when it is time."""
        now = time.monotonic()
        if not self._unreaped or now < self._retry_at:
            return
        self._retry_at = now + _RETRY_SECONDS
        for process_id, (record, deadline) in list(self._unreaped.items()):
            status = exit_status(record.fds["pidfd"])
            if status is not None or now > deadline:
                del self._unreaped[process_id]
                self._ended(record, status)

    def _on_end(self, record: Record) -> None:
        self._loop.unwatch(record.fds["pidfd"])
        status = exit_status(record.fds["pidfd"])
        if status is None:
            self._unreaped[record.process_id] = (record, time.monotonic() + _PATIENCE_SECONDS)
        else:
            self._ended(record, status)
