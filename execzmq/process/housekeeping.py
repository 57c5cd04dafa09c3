"""Own when logs give space back and finished processes are forgotten; what goes is `retention`'s decision.

Counts what is written and looks at the disk only when the count says that the budget may be passed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from execzmq.process import retention
from execzmq.process.managed import ManagedProcess
from execzmq.process.retention import LogStat, Shrink
from execzmq.process.table import ProcessTable
from execzmq.settings import FINISHED_MOST, MIB, Settings

log = logging.getLogger("execzmq.process")

_FINISHED_DELAY = 1.0
_FINISHED_SLACK = 64
_STEP = 4 * MIB
_FILES = 32
"""Files that go at a time, before other work of the loop gets its turn."""
_RECENTLY = 10.0


class Housekeeping:
    """Keeps the logs of a table within the budgets.

    Args:
        forget: called with a finished process that goes.
        tidy: called after finished processes were looked through.
    """

    def __init__(
        self,
        table: ProcessTable,
        settings: Settings,
        folder: Path,
        forget: Callable[[ManagedProcess], None],
        tidy: Callable[[], None],
    ) -> None:
        self._table = table
        self._settings = settings
        self._folder = folder
        self._forget = forget
        self._tidy = tidy
        self._estimate = 0
        self._limit = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next: asyncio.Handle | None = None
        self._finished_since = 0

    def start(self) -> None:
        """Measure what is there."""
        self._sweep()
        self._look_later()

    def close(self) -> None:
        """Stop; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def grown(self, size: int) -> None:
        """Count bytes that were added to some log; make room when the budget may be passed."""
        self._estimate += size
        if self._estimate > self._limit:
            self._sweep()

    def make_room(self) -> None:
        """Let go what may go: the disk is full, though the budget may not be passed.

        What has just ended or is being read is not forgotten for that: there is memory for what comes.
        """
        if self._next is None:
            self._sweep(spares_recent=True)

    def ended(self) -> None:
        """Note that one more process is over."""
        self._finished_since += 1
        self._look_later()
        if self._finished_since > _FINISHED_SLACK and len(self._table) > FINISHED_MOST + _FINISHED_SLACK:
            self._look()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FINISHED_DELAY, self._look)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._finished_since = 0
        finished = [(p.process_id, p.ended_on) for p in self._table if p.life.is_over]
        for action in retention.expired(finished, asyncio.get_running_loop().time()):
            self._forget(self._table.require(action.process_id))
        self._tidy()
        if len(finished) > 256:
            self._timer = asyncio.get_running_loop().call_later(60.0, self._look)

    def _sweep(self, spares_recent: bool = False) -> None:
        """Make room, a little at a time, until the logs fit or nothing more may go."""
        now = asyncio.get_running_loop().time()
        stats = [_stat_of(p, now, spares_recent) for p in self._table if p.log.is_on_disk]
        used = sum(stat.disk_bytes for stat in stats)
        limit = retention.disk_limit(self._settings.disk_budget, _free_bytes(self._folder), used)
        freed = self._carry_out(retention.plan(stats, limit))
        self._estimate = used - freed
        self._limit = max(limit, self._estimate + _STEP)
        is_over = self._estimate > limit
        self._set_short(is_over and not freed)
        if is_over and freed and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._go_on, spares_recent)

    def _go_on(self, spares_recent: bool) -> None:
        self._next = None
        self._sweep(spares_recent)

    def _carry_out(self, actions: list[retention.Action]) -> int:
        """Do of the actions what goes at a time; return the bytes freed."""
        freed = 0
        for action in actions[:_FILES]:
            process = self._table.require(action.process_id)
            before = process.log.disk_bytes
            try:
                freed += self._carry_out_one(process, action)
            except OSError as error:
                log.error("room cannot be made in %s: %s", process.log.folder, error)
                freed += before - process.log.disk_bytes
            if freed > _STEP:
                break
        return freed

    def _carry_out_one(self, process: ManagedProcess, action: retention.Action) -> int:
        before = process.log.disk_bytes
        if not isinstance(action, Shrink):
            self._forget(process)
            return before
        backlog = process.streams.backlog
        return process.log.shrink(action.target, backlog.keep_after if backlog else None, _FILES)

    def _set_short(self, is_short: bool) -> None:
        """Where room is short, let commands wait for their starters sooner."""
        for process in self._table.living():
            process.streams.room_is_short(is_short)


def _stat_of(process: ManagedProcess, now: float, spares_recent: bool) -> LogStat:
    """Return what is known of a log; what happened recently makes it one that may only be shrunk."""
    is_followed = now - process.last_read < _RECENTLY
    is_spared = spares_recent and (is_followed or now - process.ended_on < _RECENTLY)
    backlog = process.streams.backlog
    return LogStat(
        process_id=process.process_id,
        disk_bytes=process.log.disk_bytes,
        budget=process.spec.log_budget,
        closed_at=process.ended_on if process.life.is_over and not is_spared else None,
        followed=is_followed,
        read=process.read_seq >= process.log.last_seq,
        unreceived=backlog.unreceived(process.log) if backlog else 0,
    )


def _free_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
