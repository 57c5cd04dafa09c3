"""Own one process: turns what happens to it into facts of its lifecycle and carries out what the table says.

Knows nothing of the keeper that spawned it, of sockets, or of who is asking; it tells its observer of every
event and of its end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from execzmq.keeper.handover import SpawnedProcess
from execzmq.process import lifecycle, payloads
from execzmq.process.age import age_of
from execzmq.process.backlog import Backlog
from execzmq.process.census import Scope, StreamId
from execzmq.process.confinement import Confinement, Leader, Verdict
from execzmq.process.degraded import DiskTrouble
from execzmq.process.describing import info_of
from execzmq.process.ending import End, Ending
from execzmq.process.feeder import StdinFeeder
from execzmq.process.index import Kind, Record
from execzmq.process.lifecycle import Action, Fact, Life
from execzmq.process.log import OutputLog
from execzmq.process.spec import ProcessSpec
from execzmq.process.streams import StreamPump
from execzmq.process.streamset import StreamSet
from execzmq.process.usage import Meter
from execzmq.process.waiters import Waiters
from execzmq.types.events import Stream
from execzmq.types.results import Cause, ExitResult, ProcessInfo

Clock = Callable[[], float]
_NO_STREAMS: frozenset[StreamId] = frozenset()


class Observer(Protocol):
    """Who is told of what happens to a process; none of these may block."""

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """An event stands in the log; `payload` is empty for output."""

    def ended(self, process: ManagedProcess) -> None:
        """The process is closed or failed; nothing follows in its log."""

    def released(self, process: ManagedProcess) -> None:
        """Nobody can write to its streams any more, so its descriptors can be given up everywhere."""

    def time_is_over(self, process: ManagedProcess) -> None:
        """The time limit of the process has struck."""

    def paused(self, process: ManagedProcess) -> None:
        """The command must wait until its starter tells that it has received more."""

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """The disk takes nothing of its log any more; `recover` it when there is room."""

    def recovered(self, process: ManagedProcess) -> None:
        """All that was held of its log stands on disk."""


class ManagedProcess:
    """A process from its start to the end of its log.

    Attributes:
        process_id, instance: name the process and this life of its log.
        unfollowed: what the keeper has sent of it, until there are descriptors to follow it with; owned.
        ended_on, last_read: when its log ended and was read last, by the loop's clock, which never steps.

    Args:
        spec: what it is.
        log: owned from now on.
        observer: told of events and ends.
        clock: Unix seconds.
    """

    def __init__(self, spec: ProcessSpec, log: OutputLog, observer: Observer, clock: Clock) -> None:
        self.spec = spec
        self.log = log
        self.process_id, self.instance = spec.process_id, log.instance
        self.life = Life.STARTING
        self.pid: int | None = None
        self.scope, self.meter = Scope(0, mark=spec.mark), Meter()
        self.ending = Ending()
        self.confinement: Confinement | None = None
        self.result: ExitResult | None = None
        self.failure: dict[str, Any] | None = None
        self.feeder: StdinFeeder | None = None
        self.keyboard: str | None = None
        self.unfollowed: SpawnedProcess | None = None
        self.is_forgotten = self._is_given_up = False
        self.read_seq = self.exited_seq = 0
        self.last_read = self.ended_on = float("-inf")
        backlog = Backlog(spec.log_budget) if spec.backpressure == "pause" else None
        self.streams = StreamSet(log, backlog, self._paused)
        self.last_output: Record | None = None
        self.disk = DiskTrouble(self)
        self.observer = observer
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._waiters = Waiters()

    # What it is

    @property
    def has_begun(self) -> bool:
        """Tell whether something of the command may be alive, if only by the mark of an earlier life."""
        return self.scope.pid != 0 or self.scope.session_over

    @property
    def told(self) -> dict[str, Any]:
        """Return `result` as events and journal have it, empty without one."""
        return payloads.result_to_dict(self.result) if self.result else {}

    def info(self) -> ProcessInfo:
        """Describe the process as it is now."""
        return info_of(self)

    @property
    def leader(self) -> Leader:
        """Return who leads the group that signals to the command go to."""
        if self.confinement is not None:
            return self.confinement.leader
        return Leader(-1 if self.scope.pidfd is None else self.scope.pidfd, self.scope.pid)

    # What happens to it

    def confine(self, confinement: Confinement) -> None:
        """Note the sandbox around the command, before that is said to have started."""
        self.confinement = confinement
        self.scope.wrappers = confinement.wrappers

    def started(self, pid: int, pidfd: int, pumps: Iterable[StreamPump], feeder: StdinFeeder | None) -> None:
        """Take over a freshly spawned command and the ends of its streams."""
        self.ending.started_at = self._clock()
        self._take_over(pid, pidfd, pumps, feeder)
        self._take(Fact.SPAWNED)
        self._listen(0.0)

    def resumed(
        self, pid: int, pidfd: int, started_at: float, pumps: Iterable[StreamPump], feeder: StdinFeeder | None
    ) -> None:
        """Take over a command that an earlier life has started, without telling anybody.

        Where the log has told more than its start, `recall` was called before.
        """
        self._take_over(pid, pidfd, pumps, feeder)
        if self.life is Life.STARTING:
            self.ending.started_at = started_at
            self.life = Life.RUNNING
        self._listen(age_of(pid) or max(0.0, self._clock() - started_at))
        if self.life is Life.EXITED:
            self._await_streams()
        if self.life.is_over:
            self._discard()

    def recall(self, life: Life, result: ExitResult | None, failure: dict[str, Any] | None = None) -> None:
        """Be what an earlier life has told of the process, without telling anybody."""
        self.life, self.result, self.failure = life, result, failure
        if result is not None:
            self.ending.resume(result)
        if life.is_over:
            self.ended_on = self._loop.time() - max(0.0, self._clock() - self.ending.ended_at)

    def _take_over(
        self, pid: int, pidfd: int, pumps: Iterable[StreamPump], feeder: StdinFeeder | None
    ) -> None:
        self.pid = pid
        self.scope.pid, self.scope.pidfd = pid, pidfd
        self.scope.streams = self.streams.take(pumps)
        self.feeder = feeder

    def _listen(self, age: float) -> None:
        """Begin to read, and to wait for the time limit of a command that has run for `age` seconds."""
        self.streams.start()
        if self.life.has_exited:
            return
        if self.feeder is not None:
            self.feeder.poke()
        if self.spec.timeout is not None:
            left = max(0.0, self.spec.timeout - age)
            self._timers.append(self._loop.call_later(left, self._time_over))

    def spawn_failed(self, error: dict[str, Any]) -> None:
        """Record that the command could not be started, and why."""
        self.failure = error
        self.ending.ended_at = self._clock()
        self._take(Fact.SPAWN_FAILED)

    def exited(self, end: End, verdict: Verdict | None = None) -> None:
        """Record the end of the command itself, and what part its sandbox had in it (`None` = none)."""
        if self.life.has_exited:
            return
        self.ending.take(end, verdict)
        self.streams.drain()
        if self.feeder is not None:
            self.feeder.give_up()
        self._take(Fact.EXITED)
        if not self.life.is_over:
            self.log.persist()
            self.disk.check()

    def ended_unseen(self, end: End, verdict: Verdict | None = None) -> None:
        """Record the end of a command that ended, and its streams with it, while nobody was there."""
        if self.life is Life.STARTING:
            self.life = Life.RUNNING
        self.exited(end, verdict)
        self._take(Fact.STREAMS_ENDED)

    def lost(self) -> None:
        """Record that the process is out of reach and its status will never be known."""
        if self.life.is_over:
            return
        if not self.life.has_exited:
            self.ending.ask("server_lost", "")
            self.ending.ended_at = self._clock()
        self._take(Fact.LOST)
        self.release()

    def stop_requested(self, cause: Cause, asked_by: str) -> None:
        """Note why the process is about to be ended; the first who asks is named."""
        if not self.life.has_exited:
            self.ending.ask(cause, asked_by)
        self._take(Fact.STOP_REQUESTED)

    def signalled(self, signo: int, asked_by: str) -> None:
        """Note who sent a signal, for the result if the command dies of it."""
        self.ending.signals[signo] = asked_by

    # Who waits for it

    async def wait_change(self, seconds: float) -> None:
        """Return at the next event, or after `seconds`. Cancelling leaves nothing behind."""
        await self._waiters.wait(seconds)

    def was_read(self, seq: int) -> None:
        """Note that somebody has everything up to `seq`."""
        self.read_seq = max(self.read_seq, seq)
        self.last_read = self._loop.time()

    # Its end

    @property
    def is_discarding(self) -> bool:
        """Tell whether it is over and others still hold its streams, which are read for their sake."""
        return self.life.is_over and self.streams.is_open

    def release(self) -> None:
        """Close every descriptor and timer; the log stays readable. Idempotent."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.streams.close()
        if self.feeder is not None:
            self.feeder.close()
        unfollowed, self.unfollowed = self.unfollowed, None
        if unfollowed is not None:
            unfollowed.close()
        pidfd, self.scope.pidfd = self.scope.pidfd, None
        if pidfd is not None:
            os.close(pidfd)

    def commit(self, stream: Stream) -> None:
        """Make an event of the pending bytes of a stream."""
        record = self.log.commit(stream, self._clock())
        if record is not None:
            self.last_output = record
            self._tell(record, {})
            self.disk.check()
            self.streams.balance()

    def stream_ended(self, stream: Stream) -> None:
        """Note the end of one stream."""
        if not self.streams.is_open:
            self._take(Fact.STREAMS_ENDED)

    def notice(self, kind: str, data: dict[str, Any]) -> None:
        """Record a notice, unless nothing may follow any more."""
        if not self.life.is_over:
            self._record("notice", {"kind": kind, "data": payloads.plain(data)})

    # Inside

    def _take(self, fact: Fact) -> None:
        self.life, actions = lifecycle.step(self.life, fact)
        for action in actions:
            _ACTIONS[action](self)
        if actions and self.life.is_over:
            self.ended_on = self._loop.time()
            self.observer.ended(self)
        if self.life.is_over and not self.streams.is_open:
            self._give_up()

    def _give_up(self) -> None:
        """Let go of everything, once."""
        if self._is_given_up:
            return
        self._is_given_up, self.scope.streams = True, _NO_STREAMS
        self.release()
        if self.scope.pid:
            self.observer.released(self)

    def _tell(self, record: Record, payload: dict[str, Any]) -> None:
        self.observer.event_recorded(self, record, payload)
        self._waiters.wake()

    def _record(self, kind: Kind, payload: dict[str, Any]) -> None:
        self.streams.flush()
        record = self.log.append(kind, payloads.encode(payload), self._clock())
        self.exited_seq = record.seq if kind == "exited" else self.exited_seq
        self._tell(record, payload)
        self.disk.check()

    def _paused(self) -> None:
        self.observer.paused(self)

    def _time_over(self) -> None:
        if not self.life.has_exited:
            self.stop_requested("timed_out", "time limit")
            self.observer.time_is_over(self)

    def _record_started(self) -> None:
        self._record("started", {"pid": self.pid})

    def _record_failed(self) -> None:
        self._record("failed", payloads.plain(self.failure or {}))

    def _record_exited(self) -> None:
        self._record_result("exited")

    def _record_result(self, kind: Kind) -> None:
        """Record the end as far as it is known; that of the command is mostly that of its streams too."""
        self.result = self.ending.result(self.log.ends, self.log.dropped)
        self._record(kind, self.told)

    def _await_streams(self) -> None:
        if self.spec.drain_limit is not None:
            left = self.spec.drain_limit - max(0.0, self._clock() - self.ending.ended_at)
            self._timers.append(self._loop.call_later(max(0.0, left), self._drain_over))

    def _drain_over(self) -> None:
        if self.life is Life.EXITED:
            self.streams.drain()
            if self.life is Life.EXITED:
                self._take(Fact.DRAIN_OVER)

    def _name_holders(self) -> None:
        self.ending.holders = self.streams.holders(self.scope.wrappers)

    def _record_closed(self) -> None:
        self._record_result("closed")

    def _discard(self) -> None:
        self.streams.discard()


_ACTIONS: dict[Action, Callable[[ManagedProcess], None]] = {
    Action.RECORD_STARTED: ManagedProcess._record_started,
    Action.RECORD_FAILED: ManagedProcess._record_failed,
    Action.RECORD_EXITED: ManagedProcess._record_exited,
    Action.AWAIT_STREAMS: ManagedProcess._await_streams,
    Action.NAME_HOLDERS: ManagedProcess._name_holders,
    Action.RECORD_CLOSED: ManagedProcess._record_closed,
    Action.DISCARD: ManagedProcess._discard,
}
