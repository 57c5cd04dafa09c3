"""Own how it is told that the disk takes nothing of a process's log any more, and that it does again.

What is held meanwhile is the store's, when it is tried again another's.
"""

from __future__ import annotations

import errno
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from execzmq.process.managed import ManagedProcess


class DiskTrouble:
    """Whether one process is degraded."""

    __slots__ = (
        "_is_degraded",
        "_lost_before",
        "_owner",
    )

    def __init__(self, process: ManagedProcess) -> None:
        self._owner = weakref.ref(process)
        self._is_degraded = False
        self._lost_before = 0

    @property
    def _process(self) -> ManagedProcess:
        process = self._owner()
        assert process is not None, "this lives no longer than its owner"
        return process

    def refused(self, error: OSError) -> None:
        """From now on hold the output in memory, and say so once."""
        if self._is_degraded:
            return
        process = self._process
        self._is_degraded = True
        self._lost_before = sum(process.log.dropped.values())
        process.log.store.hold(error)
        process.observer.degraded(process, error)
        process.notice("degraded", {"error": errno.errorcode.get(error.errno or 0, ""), "text": str(error)})

    def check(self) -> None:
        """Notice that the disk did not take what was to be written."""
        trouble = self._process.log.store.trouble
        if trouble is not None:
            self.refused(trouble)

    def recover(self) -> bool:
        """Try the disk again; return whether the log stands there whole, as far as it was not dropped."""
        process = self._process
        process.streams.flush()
        is_over = process.log.recover()
        if is_over:
            self._is_degraded = False
            process.observer.recovered(process)
            dropped = sum(process.log.dropped.values()) - self._lost_before
            process.notice("recovered", {"dropped_bytes": dropped})
        process.streams.balance()
        return is_over
