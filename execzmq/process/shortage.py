"""Own what is done while the disk takes nothing: a reserve is given up, and it is tried again until it works.

What stays in memory meanwhile is decided by `held`. Knows nothing of the keeper and of who is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from execzmq.process.held import Memory, Retries, is_about_space
from execzmq.process.managed import ManagedProcess
from execzmq.settings import RESERVE

log = logging.getLogger("execzmq.process")

_SHARE = 16
"""Part of a small disk (1 / n) that is the reserve."""
_TRIES = 64
"""Logs that are tried at a time, before other work of the loop gets its turn."""


class Reserve:
    """Room on disk that nobody uses: the file `path`, made by `take`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def has_half_free(self) -> bool:
        """Tell whether half as much as the reserve is free on its disk, or nobody can tell."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize >= _size_on(disk) // 2

    def take(self) -> bool:
        """Take the room; return whether as much again is free, or nobody can tell."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return not is_about_space(error)
        try:
            size = _size_on(os.fstatvfs(fd))
            os.posix_fallocate(fd, 0, size)
            disk = os.fstatvfs(fd)
            return disk.f_bavail * disk.f_frsize >= size
        except OSError as error:
            return not is_about_space(error)
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give the room back; return whether there was any. A later life begins with that too."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_blocks:
                os.truncate(self._path, 0)
                return True
        return False


def _size_on(disk: os.statvfs_result) -> int:
    return max(1, min(RESERVE, disk.f_blocks * disk.f_frsize // _SHARE))


class Shortage:
    """Watches the logs that the disk has refused, and tries it again for them.

    Args:
        folder: where the reserve is.
        memory: what the logs hold.
        make_room: called before the disk is tried, to let go what may go.
        catch_up: writes what else is owed to the disk; returns whether nothing is owed any more.
    """

    def __init__(
        self, folder: Path, memory: Memory, make_room: Callable[[], None], catch_up: Callable[[], bool]
    ) -> None:
        self._reserve = Reserve(folder / "reserve")
        self._memory = memory
        self._make_room = make_room
        self._catch_up = catch_up
        self._processes: dict[ManagedProcess, None] = {}
        self._retries = Retries()
        self._interval = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Give up the reserve of an earlier life, so that this one can begin on a full disk."""
        self._reserve.release()

    def start(self) -> None:
        """Take the reserve; where there is no room the trouble begins, and it is left for what must be."""
        if self._timer is None and not self._reserve.take():
            self.refused(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def close(self) -> None:
        """Try the disk a last time, with all that was read, and stop; idempotent. Of that nobody is told."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._reserve.release()
        self._catch_up()
        for process in self._processes:
            process.streams.flush()
            if not process.log.recover():
                break
        self._processes.clear()

    def refused(self, error: OSError) -> bool:
        """Note that the disk takes nothing; return whether it is worth to try once more, with the reserve."""
        self._begin(error)
        return is_about_space(error) and self._reserve.release()

    def check_room(self) -> None:
        """Refuse what can be refused, a start, where it would take what ends, notices and forgets need.

        Raises:
            OSError: the disk is full and the reserve half used up.
        """
        if self._memory.is_disk_full and not self._reserve.has_half_free():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def add(self, process: ManagedProcess, error: OSError) -> None:
        """Try the disk again for this process until it works."""
        self._processes[process] = None
        self.refused(error)

    def remove(self, process: ManagedProcess) -> None:
        """Forget a process; idempotent."""
        self._processes.pop(process, None)

    @property
    def degraded_count(self) -> int:
        """Count the processes whose newest output is in memory only."""
        return len(self._processes)

    def _begin(self, error: OSError) -> None:
        if is_about_space(error):
            self._memory.is_disk_full = True
        if self._timer is not None:
            return
        log.error("the disk takes nothing, output is held in memory: %s", error)
        loop = asyncio.get_running_loop()
        self._interval = self._retries.begin(loop.time())
        self._timer = loop.call_later(self._interval, self._look)

    def _look(self) -> None:
        """Try the disk; where it takes all that is owed, what follows is written as ever."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval, self._look)
        if self._memory.is_disk_full:
            self._make_room()
        has_room = self._reserve.take()
        if self._memory.is_disk_full and not has_room:
            self._reserve.release()
        elif self._settle():
            self._timer.cancel()
            self._timer = None
            self._retries.end(loop.time())
            log.warning("the disk takes what is written again")

    def _settle(self) -> bool:
        """Write what is owed; return whether that is all done."""
        self._memory.is_disk_full = False
        is_over = self._catch_up() and self._recover_some()
        if self._memory.is_disk_full:
            self._reserve.release()
        return is_over and not self._processes

    def _recover_some(self) -> bool:
        """Try some of the processes; return whether the disk took all that they had."""
        for process in list(self._processes)[:_TRIES]:
            del self._processes[process]
            if process.disk.recover():
                continue
            self._processes[process] = None  # the last of all, next time
            if process.log.store.trouble is not None and is_about_space(process.log.store.trouble):
                self._memory.is_disk_full = True
                return False
        return True
