"""What a server gets from its keeper: commands with their descriptors, and how they ended.

Owns the descriptors inside `SpawnedProcess` until they are taken out. It must not know sockets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from execzmq.keeper.messages import Message


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a command ended.

    Attributes:
        process_id: its key.
        status: as from wait(2).
        rusage: what it used, with its reaped children: seconds and bytes by name.
        ended_at: Unix seconds at which the keeper reaped it.
        released: False for a held command that was never let go.
    """

    process_id: str
    status: int
    rusage: dict[str, float]
    ended_at: float
    released: bool = True


@dataclass(slots=True)
class SpawnedProcess:
    """A command that the keeper has started; its descriptors are the receiver's.

    Attributes:
        fds: our ends by name (`stdin`, `stdout`, `stderr`, `pty`, `mid_r`, `mid_w`, and what was held).
        released: False while a held command waits.
        marks: flags that a server left with the keeper.
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

    def close(self) -> None:
        """Close all descriptors that are still here."""
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.pidfd >= 0:
            pidfd, self.pidfd = self.pidfd, -1
            os.close(pidfd)


def process_from(message: Message, fds: list[int]) -> SpawnedProcess:
    """Read a `spawned` or `proc` message; the descriptors become the result's."""
    named = dict(zip(message["names"], fds, strict=True))
    return SpawnedProcess(
        process_id=message["id"],
        pid=message["pid"],
        pidfd=named.pop("pidfd"),
        fds=named,
        started_at=message["started_at"],
        released=message["released"],
        marks=frozenset(message["marks"]),
        exit=None if message.get("status") is None else exit_from(message),
    )


def exit_from(message: Message) -> ProcessExit:
    """Read an `exit` message, or the end in a `proc` message."""
    return ProcessExit(
        message["id"],
        message["status"],
        message["rusage"],
        message["ended_at"],
        message.get("released", True),
    )
