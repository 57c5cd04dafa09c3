"""Own the decision which logs give space back and which finished processes are forgotten; pure, no files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from execzmq.settings import FINISHED_AGE, FINISHED_KEPT, FINISHED_MOST, MAX_EVENT, SEGMENT

_HEADROOM = 64
"""Part of the limit (1 / n) that is freed beyond what is needed, so that it is not needed again at once.

Unlinking a file of 4 MiB takes about a millisecond: much more at once would hold up the loop.
"""
_FREE_SHARE = 10
"""Part of the free disk (1 / n) that all logs together may use."""
_STEPS = 40


@dataclass(slots=True, frozen=True)
class LogStat:
    """What is known of one log.

    Args:
        disk_bytes: what it uses now.
        budget: what it keeps in any case.
        closed_at: seconds of any clock at its last event, `None` while it is not to be forgotten.
        followed: somebody reads it now.
        read: somebody has read it to its end.
        unreceived: newest bytes that its starter has not told as received; they are never dropped.
    """

    process_id: str
    disk_bytes: int
    budget: int
    closed_at: float | None = None
    followed: bool = False
    read: bool = False
    unreceived: int = 0

    @property
    def settled(self) -> int:
        """Return the bytes down to which the log can surely be shrunk within its budget."""
        return self.settled_at(1.0)

    def settled_at(self, part: float) -> int:
        """Return the same for a part of its budget, whose first half stays beside what is not received."""
        half = int(self.budget * part) // 2
        return half + max(half, self.unreceived) + slack(self.budget)


@dataclass(slots=True, frozen=True)
class Shrink:
    """Drop the middle of a log down to `target` bytes, but nothing that its starter has not received."""

    process_id: str
    target: int


@dataclass(slots=True, frozen=True)
class Forget:
    """Remove a finished process and its log."""

    process_id: str


Action: TypeAlias = Shrink | Forget


def slack(budget: int) -> int:
    """Return the bytes by which a log may stay above its budget.

    An eighth each for a stream of its own and for records of dropped events; the rest because only whole
    files go, at both ends of both streams and of the index.
    """
    return budget // 4 + 5 * (min(SEGMENT, budget // 8) + MAX_EVENT)


def disk_limit(configured: int, free: int, used: int) -> int:
    """Return the bytes for all logs: a tenth of the disk that is free but for them, at most `configured`."""
    return min(configured, (free + used) // _FREE_SHARE)


def plan(stats: Sequence[LogStat], limit: int) -> list[Action]:
    """Return what makes room when all logs together pass `limit` bytes; nothing where they do not.

    Only the first of these steps that has something to do: the middle beyond the budgets, the largest
    finished and unread log first; whole finished logs, the oldest first; all budgets alike. Measure and ask
    again afterwards, until the answer is empty or it freed nothing: then only what must stay is left.
    """
    if sum(stat.disk_bytes for stat in stats) <= limit:
        return []
    needed = sum(stat.disk_bytes for stat in stats) - (limit - limit // _HEADROOM)
    return _beyond_budgets(stats, needed) or _whole_logs(stats, needed) or _all_alike(stats, limit)


def _beyond_budgets(stats: Iterable[LogStat], needed: int) -> list[Action]:
    def order(stat: LogStat) -> tuple[bool, int]:
        return stat.closed_at is None or stat.read or stat.followed, -stat.disk_bytes

    actions: list[Action] = []
    for stat in sorted((stat for stat in stats if stat.disk_bytes > stat.settled), key=order):
        if needed <= 0:
            break
        target = max(stat.budget, stat.disk_bytes - needed)
        actions.append(Shrink(stat.process_id, target))
        needed -= stat.disk_bytes - target
    return actions


def _whole_logs(stats: Iterable[LogStat], needed: int) -> list[Action]:
    finished = [
        (stat.followed, stat.closed_at, stat)
        for stat in stats
        if stat.closed_at is not None and stat.disk_bytes and not stat.unreceived
    ]
    small = [stat.disk_bytes for _, _, stat in finished if stat.disk_bytes * _HEADROOM < needed]
    if sum(small) * _HEADROOM < needed:
        # Their results would be lost for nothing.
        finished = [entry for entry in finished if entry[2].disk_bytes * _HEADROOM >= needed]
    actions: list[Action] = []
    for _, _, stat in sorted(finished, key=lambda entry: entry[:2]):
        if needed <= 0:
            break
        actions.append(Forget(stat.process_id))
        needed -= stat.disk_bytes
    return actions


def _all_alike(stats: Iterable[LogStat], limit: int) -> list[Action]:
    """Return shrinks to the same part of every budget, the largest part with which all fit."""
    stats = list(stats)
    goal = limit - limit // _HEADROOM
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(min(stat.disk_bytes, stat.settled_at(middle)) for stat in stats) <= goal:
            low = middle
        else:
            high = middle
    return [
        Shrink(stat.process_id, int(stat.budget * low))
        for stat in stats
        if stat.disk_bytes > int(stat.budget * low)
    ]


def expired(finished: Iterable[tuple[str, float]], now: float) -> list[Forget]:
    """Return the finished processes that are no longer kept, the oldest first.

    The newest `FINISHED_KEPT` stay; more of them, up to `FINISHED_MOST`, for `FINISHED_AGE` seconds.

    Args:
        finished: id and end of each, in seconds of a clock that never goes back.
        now: seconds of that clock.
    """
    newest_first = sorted(finished, key=lambda entry: entry[1], reverse=True)
    gone = [
        Forget(process_id)
        for position, (process_id, ended) in enumerate(newest_first)
        if position >= FINISHED_MOST or (position >= FINISHED_KEPT and now - ended > FINISHED_AGE)
    ]
    return gone[::-1]
