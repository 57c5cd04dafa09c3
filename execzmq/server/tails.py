"""Own when it is told again where a log ends: some time after the last event of a process, and then seldom.

Knows nothing of messages. A process that goes on writing costs nothing here: it is looked at again when the
first repetition would have been due.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from execzmq.process.managed import ManagedProcess
from execzmq.settings import TAIL_DELAYS

_TICK = 0.1


@dataclass(slots=True)
class Tail:
    """The end of one log.

    Args:
        since: monotonic seconds of the last event.
        stage: number of the delay that it waits for.
        frames: what was sent of it, empty before and after a new event.
    """

    process: ManagedProcess
    since: float
    stage: int
    frames: list[bytes | memoryview]


class Tails:
    """Calls `repeat` with the processes that have said nothing for one of `TAIL_DELAYS`.

    Args:
        repeat: sends tails that are due at once.
        clock: monotonic seconds.
    """

    def __init__(self, repeat: Callable[[list[Tail]], None], clock: Callable[[], float]) -> None:
        self._repeat = repeat
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tails: dict[str, Tail] = {}
        # By the delay that is waited for, oldest first; what is not so any more is passed over.
        self._queues: list[deque[tuple[float, Tail]]] = [deque() for _ in TAIL_DELAYS]
        self._ticker: asyncio.TimerHandle | None = None

    def expect(self, process: ManagedProcess, now: float) -> None:
        """Note an event of a process."""
        tail = self._tails.get(process.process_id)
        if tail is not None and tail.process is process:
            tail.since, tail.frames = now, []  # those of before may still wait to be sent
            if tail.stage == 0:
                return
            tail.stage = 0
        else:
            tail = self._tails[process.process_id] = Tail(process, now, 0, [])
        self._queues[0].append((now, tail))
        if self._ticker is None:
            self._ticker = self._loop.call_later(_TICK, self._tick)

    def repeat_all(self) -> None:
        """Repeat each once more, as before the end of the server."""
        self._repeat(list(self._tails.values()))

    def close(self) -> None:
        """Repeat nothing any more; idempotent."""
        self._tails.clear()
        for queue in self._queues:
            queue.clear()
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    def _tick(self) -> None:
        now, due = self._clock(), []
        for stage, delay in enumerate(TAIL_DELAYS):
            queue = self._queues[stage]
            while queue and now - queue[0][0] >= delay:
                since, tail = queue.popleft()
                if self._is_due(stage, since, tail):
                    due.append(tail)
        if due:
            self._repeat(due)
        self._ticker = self._loop.call_later(_TICK, self._tick) if self._tails else None

    def _is_due(self, stage: int, since: float, tail: Tail) -> bool:
        """Return whether a tail is to be repeated, and let it wait for its next delay."""
        process_id = tail.process.process_id
        if self._tails.get(process_id) is not tail or tail.stage != stage:
            return False  # the id is another process's now, or there was a new event
        if tail.since != since:
            if stage == 0:
                self._queues[0].append((tail.since, tail))
            return False
        tail.stage += 1
        if tail.stage < len(TAIL_DELAYS):
            self._queues[tail.stage].append((since, tail))
        else:
            del self._tails[process_id]
        return True
