"""Own what the journal of a backend says of its processes; knows nothing of when ends are written."""

from __future__ import annotations

from execzmq.process.managed import ManagedProcess
from execzmq.process.spec import ProcessSpec, boot_id, spec_to_record


def journal_records(process: ManagedProcess) -> list[dict[str, object]]:
    """Return what the journal says of a process."""
    start = start_record(process.spec)
    return [start, end_record(process)] if process.life.is_over else [start]


def start_record(spec: ProcessSpec) -> dict[str, object]:
    """Return the journal's record of a start, with the boot of the machine in which the process runs."""
    return {"kind": "start", "boot": boot_id(), **spec_to_record(spec)}


def forget_record(spec: ProcessSpec) -> dict[str, object]:
    """Return the journal's record of a forget, after which the id is free."""
    return {"kind": "forget", "process_id": spec.process_id, "instance": spec.instance}


def end_record(process: ManagedProcess) -> dict[str, object]:
    """Return the journal's record of an end, from which a log that was never on disk can be made again."""
    return {
        "kind": "end",
        "process_id": process.process_id,
        "instance": process.spec.instance,
        "pid": process.pid,
        "started_at": process.ending.started_at,
        "ended_at": process.ending.ended_at,
        "result": process.told or None,
        "failure": process.failure,
        "last_seq": process.log.last_seq,
        "on_disk": process.log.is_on_disk,
    }
