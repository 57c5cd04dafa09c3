"""Own what a new life of a backend makes of the journal, logs and keeper that an earlier one has left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from execzmq.backends.wiring import connect_streams
from execzmq.keeper.client import SpawnedProcess
from execzmq.process import payloads
from execzmq.process.index import Kind
from execzmq.process.journal import without_forgotten
from execzmq.process.lifecycle import Life
from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.spec import ProcessSpec, spec_from_record

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

_Memo = tuple[Kind, bytes, float]


def restore(
    backend: LocalBackend, records: Iterable[dict[str, Any]], left: Mapping[str, SpawnedProcess]
) -> None:
    """Fill the table of `backend`.

    Ended processes can be read as before; those that the keeper still has go on; of the others nobody knows
    how they ended.
    """
    starts: dict[tuple[str, int], ProcessSpec] = {}
    ends: dict[tuple[str, int], dict[str, Any]] = {}
    for record in without_forgotten(records):
        key = record["process_id"], record["instance"]
        if record["kind"] == "start":
            starts[key] = spec_from_record(record)
        else:
            ends[key] = record
    for key, spec in starts.items():
        if key in ends:
            _ended(backend, spec, ends[key])
        elif spec.process_id in left:
            _adopt(backend, spec, left[spec.process_id])
        else:
            _lost(backend, spec)


def _ended(backend: LocalBackend, spec: ProcessSpec, end: Mapping[str, Any]) -> None:
    folder = backend.log_folder(spec)
    if end["on_disk"]:
        log = OutputLog.open(folder, spec.instance, spec.log_budget, end["ended_at"])
    else:
        log = OutputLog.from_memory(folder, spec.instance, spec.log_budget, _memos(end))
    process = ManagedProcess(spec, log, backend, backend.clock)
    process.pid = end["pid"]
    process.failure = end["failure"]
    process.ending.started_at, process.ending.ended_at = end["started_at"], end["ended_at"]
    process.result = None if end["result"] is None else payloads.result_from_dict(end["result"])
    process.life = Life.FAILED if process.result is None else Life.CLOSED
    backend.table.add(process)


def _memos(end: Mapping[str, Any]) -> list[_Memo]:
    """Return the events of a log that never was on disk."""
    if end["result"] is None:
        return [("failed", payloads.encode(dict(end["failure"])), end["ended_at"])]
    result = payloads.encode(end["result"])
    return [
        ("started", payloads.encode({"pid": end["pid"]}), end["started_at"]),
        ("exited", result, end["ended_at"]),
        ("closed", result, end["ended_at"]),
    ]


def _adopt(backend: LocalBackend, spec: ProcessSpec, spawned: SpawnedProcess) -> None:
    started: _Memo = ("started", payloads.encode({"pid": spawned.pid}), spawned.started_at)
    log = OutputLog.open(
        backend.log_folder(spec), spec.instance, spec.log_budget, backend.clock(), first=[started]
    )
    process = ManagedProcess(spec, log, backend, backend.clock)
    backend.table.add(process)
    pumps, feeder = connect_streams(backend, process, spawned, adopted=True)
    process.resumed(spawned.pid, spawned.pidfd, spawned.started_at, pumps, feeder)
    if spawned.exit is not None:
        process.exited(spawned.exit.status, spawned.exit.rusage)


def _lost(backend: LocalBackend, spec: ProcessSpec) -> None:
    log = OutputLog.open(backend.log_folder(spec), spec.instance, spec.log_budget, backend.clock())
    process = ManagedProcess(spec, log, backend, backend.clock)
    backend.table.add(process)
    process.ending.started_at = spec.requested_at
    if log.last_kind == "closed":
        process.life = Life.CLOSED
        page = log.page(log.last_seq - 1)
        process.result = payloads.result_from_dict(payloads.decode(page.payloads[log.last_seq]))
        backend.ended(process)
        return
    if log.last_seq == 0:
        process.spawn_failed(
            {"ename": "ServerLost", "evalue": "the server ended before it was started", "details": {}}
        )
        return
    process.life = Life.RUNNING
    process.lost()
