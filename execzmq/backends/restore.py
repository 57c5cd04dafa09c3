"""Own what a new life of a backend makes of the journal, logs and keeper that an earlier one has left."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from execzmq.backends import orphans
from execzmq.backends.confined import unfolded
from execzmq.backends.records import forget_record, start_record
from execzmq.backends.unknown import spec_from_keeper
from execzmq.backends.wiring import connect_streams
from execzmq.keeper.handover import ProcessExit, SpawnedProcess, exit_from
from execzmq.process import payloads
from execzmq.process.ending import End
from execzmq.process.index import LAST_KINDS, Kind
from execzmq.process.journal import without_forgotten
from execzmq.process.lifecycle import Life
from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.spec import ProcessSpec, boot_id, key_of, spec_from_record

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

log = logging.getLogger("execzmq.backend")

_Memo = tuple[Kind, bytes, float]
_INCOMPLETE = "output that was told before may be missing, and nobody knows how much"
_OPENED = 16
"""Descriptors that following one command takes at the most, besides those that the keeper has sent."""
_AGAIN = 1.0
"""Seconds after which one looks again whether there are as many."""
_SILENT = 3
"""Events of a command that says nothing: `started`, `exited` and `closed`."""


def restore(
    backend: LocalBackend, records: Iterable[dict[str, Any]], left: Mapping[str, SpawnedProcess]
) -> None:
    """Fill the table of `backend`.

    Ended processes can be read as before; those that the keeper still has go on; of the others nobody knows
    how they ended.

    Args:
        left: the commands that the keeper has, by the key of their spec.
    """
    starts: dict[str, ProcessSpec] = {}
    boots: dict[str, str] = {}
    ends: dict[str, dict[str, Any]] = {}
    records = list(records)
    for record in without_forgotten(records):
        if record["kind"] == "start":
            spec = spec_from_record(record)
            starts[spec.key], boots[spec.key] = spec, record.get("boot", "")
        else:
            ends[key_of(record["process_id"], record["instance"])] = record
    for spec in _forgotten(backend, starts, ends):
        del starts[spec.key]
        _forget(backend, spec)
    for key, spec in starts.items():
        went_down = key not in ends and boots[key] != boot_id()
        _restore_one(backend, spec, ends.get(key), left.get(key), went_down)
    _order(backend, ends)
    known = {key_of(record["process_id"], record["instance"]) for record in records}
    for spawned in sorted(left.values(), key=lambda spawned: -spawned.started_at):
        if spawned.process_id not in starts:
            _take_unknown(backend, spawned, was_known=spawned.process_id in known)
    if len(backend.table):
        living = len(backend.table.living())
        words = "took over %d running and %d finished commands of an earlier life"
        log.info(words, living, len(backend.table) - living)


def _order(backend: LocalBackend, ends: Iterable[str]) -> None:
    """Let ends keep the order of the journal: the clock that dated them may have been set back."""
    latest = float("-inf")
    for key in ends:
        process = backend.table.get_by_key(key)
        if process is not None:
            latest = process.ended_on = max(latest, process.ended_on)


def _restore_one(
    backend: LocalBackend,
    spec: ProcessSpec,
    end: dict[str, Any] | None,
    spawned: SpawnedProcess | None,
    went_down: bool,
) -> None:
    """Restore one process; `went_down` tells that the machine did, before its end was written."""
    if end is None and _waits(backend, spec, spawned):
        _restore_unstarted(backend, spec, spawned)
        return
    is_gone = _is_gone(backend, spec, spawned)
    output = _log_of(backend, spec, end, spawned)
    if backend.journal.damaged and end is None and spawned is None and output.last_kind not in LAST_KINDS:
        went_down = True  # its end may have been told, and have stood where the journal is damaged
    was_degraded = spawned is not None and "degraded" in spawned.marks
    is_cut = end is not None and output.last_kind not in LAST_KINDS
    is_damaged = output.damaged and not (end and spec.log_instance)
    lacks_output = is_damaged or is_gone or was_degraded
    if lacks_output or went_down or is_cut:
        # What was told may differ from what is there: no cursor of before may fit.
        log.warning("the end of the log of %s may be missing: it has a new instance", spec.process_id)
        spec = replace(spec, log_instance=int.from_bytes(os.urandom(8)))
        backend.journal.note(start_record(spec))
        if spawned is not None:
            backend.keeper.mark(spec.key, "renewed")  # should the journal get lost
    if end is not None and is_cut:
        _finish(output, end)
    if was_degraded:
        backend.keeper.mark(spec.key, "degraded", False)
    output.instance = spec.log_instance or spec.instance
    process = ManagedProcess(spec, output, backend, backend.clock)
    if end is not None:
        _recall_end(process, end)
    else:
        _recall_log(process)
    backend.table.add(process)
    if end is None and process.life.is_over:
        backend.ended(process)
    if spawned is not None:
        _adopt_in_turn(backend, process, spawned, lacks_output)
    elif not process.life.is_over:
        _end_alone(backend, process, _exit_left(backend, spec))
        if spec.sandbox is not None:
            end_rest = orphans.end_unreachable if process.life is Life.FAILED else orphans.end_waiting
            backend.run_task(end_rest(spec, backend.scanner))
    process.disk.check()


def _waits(backend: LocalBackend, spec: ProcessSpec, spawned: SpawnedProcess | None) -> bool:
    """Tell whether a command was never let go from its gate: the keeper has ended it with the last server."""
    if spawned is not None:
        return not spawned.released
    left = None if spec.sandbox is None else _exit_left(backend, spec)
    return left is not None and not left.released


def _restore_unstarted(backend: LocalBackend, spec: ProcessSpec, spawned: SpawnedProcess | None) -> None:
    """Restore what has not run, and so did not start."""
    if spawned is not None:
        spawned.close()
        backend.keeper.abandon(spec.key)
    folder = backend.log_folder(spec.key)
    OutputLog(folder, spec.instance, spec.log_budget).remove()  # what the wrapper has said of its end
    output = OutputLog(folder, spec.instance, spec.log_budget, backend.memory)
    process = ManagedProcess(spec, output, backend, backend.clock)
    backend.table.add(process)
    process.spawn_failed(_not_started())


def _not_started() -> dict[str, Any]:
    words = "the server ended before it was started; start it again"
    return {"ename": "ServerLost", "evalue": words, "details": {}}


def _is_gone(backend: LocalBackend, spec: ProcessSpec, spawned: SpawnedProcess | None) -> bool:
    """Tell whether events stood on disk of which there is no index any more: seqs would begin anew."""
    if spawned is None or "stored" not in spawned.marks:
        return False
    return not any(Path(backend.log_folder(spec.key)).glob("idx.[0-9]*"))


def _forgotten(
    backend: LocalBackend, starts: dict[str, ProcessSpec], ends: dict[str, dict[str, Any]]
) -> list[ProcessSpec]:
    """Return what was forgotten although the journal, being damaged, does not say so.

    Its id was free when another took it, or its log is gone.
    """
    if not backend.journal.damaged:
        return []
    newest = {spec.process_id: key for key, spec in starts.items()}
    return [
        spec
        for key, spec in starts.items()
        if newest[spec.process_id] != key
        or (key in ends and ends[key]["on_disk"] and not os.path.exists(backend.log_folder(spec.key)))
    ]


def _forget(backend: LocalBackend, spec: ProcessSpec) -> None:
    OutputLog(backend.log_folder(spec.key), spec.instance, spec.log_budget).remove()
    backend.journal.note(forget_record(spec))


def _log_of(
    backend: LocalBackend, spec: ProcessSpec, end: dict[str, Any] | None, spawned: SpawnedProcess | None
) -> OutputLog:
    folder, now = backend.log_folder(spec.key), backend.clock()
    if end is None:
        started: list[_Memo] = []
        left = spawned or _exit_left(backend, spec)
        if left is not None:
            started = [_started(left.pid, left.started_at or spec.requested_at)]
        elif backend.journal.damaged or backend.keeper.follows_dead:
            # Of a command that has said nothing the log has nothing; it may have been told of as started.
            started = [_started(0, spec.requested_at)]
        return OutputLog.open(
            folder, spec.instance, spec.log_budget, now, first=started, memory=backend.memory
        )
    if end["on_disk"] or os.path.exists(folder):  # it may have come to disk after its end
        found = OutputLog.open(folder, spec.instance, spec.log_budget, end["ended_at"], memory=backend.memory)
        if end["on_disk"] or found.is_on_disk:
            return found
    return OutputLog.from_memory(folder, spec.instance, spec.log_budget, _memos(end), backend.memory)


def _finish(output: OutputLog, end: Mapping[str, Any]) -> None:
    """Let a log end as it was told: its end was in memory only, or is gone from the disk."""
    if end["result"] is None:
        output.append("failed", payloads.encode(dict(end["failure"])), end["ended_at"])
    else:
        payload = payloads.encode(end["result"])
        output.finish(end["last_seq"], end["result"]["output_bytes"], payload, end["ended_at"])


def _recall_end(process: ManagedProcess, end: Mapping[str, Any]) -> None:
    """Be what the journal says of an end."""
    process.pid = end["pid"]
    process.ending.started_at, process.ending.ended_at = end["started_at"], end["ended_at"]
    if end["result"] is None:
        process.recall(Life.FAILED, None, end["failure"])
    else:
        process.recall(Life.CLOSED, payloads.result_from_dict(end["result"]))
        _keep_findable(process)


def _recall_log(process: ManagedProcess) -> None:
    """Be what the log says, where the earlier life was killed before it could write an end to the journal."""
    lives: dict[Kind, Life] = {"closed": Life.CLOSED, "exited": Life.EXITED}
    for kind, life in lives.items():
        payload = process.log.store.payload_of(kind)
        if payload is not None:
            process.recall(life, payloads.result_from_dict(payloads.decode(payload)))
            return


def _started(pid: int | None, started_at: float) -> _Memo:
    return "started", payloads.encode({"pid": pid}), started_at


def _memos(end: Mapping[str, Any]) -> list[_Memo]:
    """Return the events of a log that never was on disk, up to the output that was in memory only."""
    if end["result"] is None:
        return [("failed", payloads.encode(dict(end["failure"])), end["ended_at"])]
    result = payloads.encode(end["result"])
    if end["last_seq"] > _SILENT:
        return [_started(end["pid"], end["started_at"])]
    return [
        _started(end["pid"], end["started_at"]),
        ("exited", result, end["ended_at"]),
        ("closed", result, end["ended_at"]),
    ]


def _adopt_in_turn(
    backend: LocalBackend, process: ManagedProcess, spawned: SpawnedProcess, lacks_output: bool
) -> None:
    """Go on with a command now, or as soon as there are descriptors for it: its end is told then, too."""
    if _has_room():
        _adopt(backend, process, spawned, lacks_output)
        return
    log.warning(
        "no descriptor is free to follow %s, which runs on: one looks again until there is",
        process.process_id,
    )
    if process.life is Life.STARTING:
        process.recall(Life.RUNNING, None)
    process.unfollowed = spawned
    _look_again(backend, process, lacks_output)


def _look_again(backend: LocalBackend, process: ManagedProcess, lacks_output: bool) -> None:
    asyncio.get_running_loop().call_later(_AGAIN, _adopt_again, backend, process, lacks_output)


def _adopt_again(backend: LocalBackend, process: ManagedProcess, lacks_output: bool) -> None:
    spawned = process.unfollowed
    if spawned is None:  # the backend is closed; the keeper still has it
        return
    if not _has_room():
        _look_again(backend, process, lacks_output)
        return
    process.unfollowed = None
    log.info("%s is followed now", process.process_id)
    _adopt(backend, process, spawned, lacks_output)


def _has_room() -> bool:
    """Tell whether there are descriptors for all that following a command opens: half of it is no use."""
    fds: list[int] = []
    try:
        while len(fds) < _OPENED:
            fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for fd in fds:
            os.close(fd)
    return True


def _adopt(
    backend: LocalBackend, process: ManagedProcess, spawned: SpawnedProcess, lacks_output: bool
) -> None:
    """Go on with a command that the keeper has; of one that is over the rest is discarded."""
    backend.confiner.cells.resume(process, spawned)
    pumps, feeder = connect_streams(backend, process, spawned, adopted=True)
    process.resumed(spawned.pid, spawned.pidfd, spawned.started_at, pumps, feeder)
    if lacks_output:
        process.notice("incomplete", {"text": _INCOMPLETE})
    if process.is_discarding:
        backend.keeper.mark(spawned.process_id, "discard")
    elif not process.life.is_over:
        # What a terminal has in its pipe no event announces.
        process.streams.drain()
    if spawned.exit is not None:
        backend.exited(process, _end_of(spawned.exit))
    if spawned.keeper != backend.keeper.pid:  # it died while it handed over
        backend.run_task(orphans.hand_over(backend.keeper, [process]))


def _end_alone(backend: LocalBackend, process: ManagedProcess, end: ProcessExit | None) -> None:
    """Record the end of a command that nobody has any more; if the keeper left no word, it is not known.

    One that has no event was never started: its keeper ended in order, or is here and does not know it.
    """
    process.ending.started_at = process.ending.started_at or process.spec.requested_at
    if end is not None:
        told = _end_of(end)
        if process.spec.sandbox is None:
            process.ended_unseen(told)
        else:
            status = told.status if end.inner else unfolded(told.status)
            backend.confiner.cells.end_unseen(process, told._replace(status=status))
        process.scope.session_over = True  # jobs of it may live, known by the mark in their env
    elif process.log.last_seq == 0:
        process.spawn_failed(_not_started())
    else:
        if process.life is Life.STARTING:
            process.recall(Life.RUNNING, None)
        process.lost()
        _keep_findable(process)


def _end_of(told: ProcessExit) -> End:
    return End(told.status, told.rusage, told.ended_at)


def _keep_findable(process: ManagedProcess) -> None:
    """Let one that was lost be ended by the mark in its env: its number may be that of another by now."""
    if process.result is not None and process.result.cause == "server_lost":
        process.scope.session_over = True


def _exit_left(backend: LocalBackend, spec: ProcessSpec) -> ProcessExit | None:
    """Return what a keeper wrote down that ended because nothing was left to keep."""
    try:
        return exit_from(json.loads(Path(backend.log_folder(spec.key), "exit").read_text()))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _take_unknown(backend: LocalBackend, spawned: SpawnedProcess, was_known: bool) -> None:
    """Go on with a command whose start the journal has lost; let go of one that is over or was forgotten."""
    spec = spec_from_keeper(spawned, backend.base_cwd, backend.settings.log_budget)
    is_over = was_known or "discard" in spawned.marks
    if spec is None or is_over or backend.table.get(spec.process_id) is not None:
        _leave(backend, spawned)
        return
    log.warning(
        "the journal has lost the start of %s, pid %d: it goes on without its name and limits",
        spec.process_id,
        spawned.pid,
    )
    backend.journal.note(start_record(spec))
    _restore_one(backend, spec, None, spawned, "renewed" in spawned.marks)


def _leave(backend: LocalBackend, spawned: SpawnedProcess) -> None:
    """Let go of a command that was forgotten and is over, or whose id another has."""
    spawned.close()
    if spawned.exit is not None:
        backend.keeper.forget(spawned.process_id)
    else:
        backend.keeper.mark(spawned.process_id, "discard")  # nobody would remove what is stored of it
        log.warning("a command is not known here and left alone: pid %d", spawned.pid)
