"""Own what is told of a process to who asks for a description; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from execzmq.types.params import TtySize
from execzmq.types.results import ProcessInfo

if TYPE_CHECKING:
    from execzmq.process.managed import ManagedProcess


def info_of(process: ManagedProcess) -> ProcessInfo:
    """Describe a process as it is now."""
    spec, life = process.spec, process.life
    return ProcessInfo(
        process_id=spec.process_id,
        name=spec.name,
        instance=process.instance,
        argv=spec.argv,
        cwd=spec.cwd,
        state=life.public,
        pid=process.pid,
        started_at=process.ending.started_at,
        exited=life.has_exited,
        closed=life.is_over,
        result=process.result,
        last_seq=process.log.last_seq,
        output_bytes=dict(process.log.ends),
        tty=spec.tty,
        tty_size=TtySize(spec.rows, spec.cols) if spec.tty else None,
        keyboard=process.keyboard,
        failure=process.failure,
        sandbox=spec.sandbox,
    )
