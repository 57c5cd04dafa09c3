"""What a server gets from its keeper: commands with their descriptors, and how they ended.

Owns the descriptors inside `SpawnedProcess` until they are taken out. It must not know sockets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from execzmq.keeper.messages import Message, text


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a command ended.

    Attributes:
        process_id: its key.
        status: as from wait(2); None where nobody knows it.
        rusage: what it used, with its reaped children: seconds and bytes by name.
        ended_at: Unix seconds at which the keeper reaped it.
        released: False for a command that was never let go from its gate.
        pid: its process id, 0 where that is not told.
        started_at: Unix seconds, likewise.
        inner: the status is that of a command within what was started.
    """

    process_id: str
    status: int | None
    rusage: dict[str, float]
    ended_at: float
    released: bool = True
    pid: int = 0
    started_at: float = 0.0
    inner: bool = False


@dataclass(slots=True)
class SpawnedProcess:
    """A command that the keeper has started; its descriptors are the receiver's.

    Attributes:
        fds: our ends by name (`stdin`, `stdout`, `stderr`, `pty`, `mid_r`, `mid_w`, and what was held).
        released: False while it waits at its gate.
        marks: flags that a server left with the keeper.
        keeper: process id of the keeper that has handed it over.
        exit: how it ended; set before `on_exit` is called, None while it runs.
    """

    process_id: str
    pid: int
    pidfd: int
    fds: dict[str, int]
    started_at: float
    released: bool = True
    marks: frozenset[str] = frozenset()
    exit: ProcessExit | None = None
    keeper: int = 0

    def close(self) -> None:
        """Close all descriptors that are still here."""
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.pidfd >= 0:
            pidfd, self.pidfd = self.pidfd, -1
            os.close(pidfd)


@dataclass(slots=True)
class Orphan:
    """A command whose keeper has died, as it is given to the next one.

    Attributes:
        fds: our ends by name as in `SpawnedProcess`, and `pidfd`; they stay the owner's.
        folder, drain_limit_bytes, segment_bytes: as in `Launch`.
        exit: how it ended, None while it runs.
    """

    process_id: str
    pid: int
    fds: dict[str, int]
    started_at: float
    folder: bytes | None
    drain_limit_bytes: int | None
    segment_bytes: int
    marks: frozenset[str] = frozenset()
    exit: ProcessExit | None = None


def adopt_message(orphan: Orphan) -> Message:
    """Write the `adopt` message; the descriptors go beside it in the order of `names`."""
    end = orphan.exit
    return {
        "op": "adopt",
        "id": orphan.process_id,
        "pid": orphan.pid,
        "names": list(orphan.fds),
        "started_at": orphan.started_at,
        "folder": None if orphan.folder is None else text(orphan.folder),
        "drain_limit_bytes": orphan.drain_limit_bytes,
        "segment_bytes": orphan.segment_bytes,
        "marks": sorted(orphan.marks),
        "status": None if end is None else end.status,
        "rusage": {} if end is None else end.rusage,
        "ended_at": None if end is None else end.ended_at,
    }


def process_from(message: Message, fds: list[int], keeper: int = 0) -> SpawnedProcess:
    """Read a `spawned` or `proc` message of a keeper; the descriptors become the result's."""
    named = dict(zip(message["names"], fds, strict=True))
    return SpawnedProcess(
        process_id=message["id"],
        pid=message["pid"],
        pidfd=named.pop("pidfd"),
        fds=named,
        started_at=message["started_at"],
        released=message["released"],
        marks=frozenset(message["marks"]),
        exit=None if message.get("ended_at") is None else exit_from(message),
        keeper=keeper,
    )


def exit_from(message: Message) -> ProcessExit:
    """Read an `exit` message, or the end in a `proc` message."""
    return ProcessExit(
        message["id"],
        message["status"],
        message["rusage"],
        message["ended_at"],
        message.get("released", True),
        message.get("pid", 0),
        message.get("started_at", 0.0),
        message.get("inner", False),
    )
