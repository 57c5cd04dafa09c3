"""The commands that the keeper holds: their descriptors, and what is known of their end.

Owns every descriptor of every command until `close`. It must not know sockets or messages' bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

from execzmq.keeper import tree
from execzmq.keeper.launch import SEGMENT_BYTES, Launch, SpawnError
from execzmq.keeper.messages import INSIDE, INTERNET, PROXY, SANDBOX
from execzmq.keeper.outlets import has_ended
from execzmq.keeper.pidfds import exit_status, is_over
from execzmq.keeper.spawn import Spawned
from execzmq.keeper.terminal import unread_bytes

_TO_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9: the command and who is in its group."""


class Record:
    """One command under the keeper's care.

    Args:
        process_id, pid: its names here and in the system.
        fds: descriptors by name, `pidfd` among them.
        started_at: Unix seconds.
        adopted: another keeper has started it, which has died: this process cannot reap it.

    Attributes:
        folder: where output, and the end, are stored while the keeper is orphaned.
        drain_limit_bytes: how much of the output; None is no limit.
        segment_bytes: size from which on another file is begun.
        has_gate: it began at a gate: who waits there may be its child, out of its group.
        released: False while it has not been let go there; True for all others.
        abandoned: nobody wants it: it is forgotten as soon as it has ended.
        status: as from wait(2); None while it runs, or where nobody knows.
        ended_at: Unix seconds; None while it runs.
        recorded: its end is on disk.
        is_inner: the status is that of the command within.
    """

    def __init__(
        self, process_id: str, pid: int, fds: dict[str, int], started_at: float, *, adopted: bool = False
    ) -> None:
        self.process_id = process_id
        self.pid = pid
        self.fds = fds
        self.started_at = started_at
        self.adopted = adopted
        self.folder: bytes | None = None
        self.drain_limit_bytes: int | None = None
        self.segment_bytes = SEGMENT_BYTES
        self.release = -1
        self.released = True
        self.has_gate = False
        self.abandoned = False
        self.status: int | None = None
        self.rusage: dict[str, float] = {}
        self.ended_at: float | None = None
        self.marks: set[str] = set()
        self.recorded = self.is_inner = False

    @classmethod
    def of(cls, launch: Launch, spawned: Spawned, now: float) -> Record:
        """Make the record of a command that was just started."""
        record = cls(launch.process_id, spawned.pid, {"pidfd": spawned.pidfd, **spawned.fds}, now)
        record.folder = launch.folder
        record.drain_limit_bytes = launch.drain_limit_bytes
        record.segment_bytes = launch.segment_bytes
        record.release = spawned.release
        record.has_gate = launch.gate is not None
        record.released = not record.has_gate
        return record

    @property
    def has_ended(self) -> bool:
        """Tell whether it has ended, with a status or without."""
        return self.ended_at is not None

    def description(self, op: str) -> dict[str, Any]:
        """Write the `spawned` or `proc` message; the descriptors go beside it in the order of `names`."""
        return {
            "op": op,
            "id": self.process_id,
            "pid": self.pid,
            "names": list(self.fds),
            "released": self.released,
            "marks": sorted(self.marks),
            "started_at": self.started_at,
            "status": self.status,
            "rusage": self.rusage,
            "ended_at": self.ended_at,
        }

    def end_as(self, status: int | None, rusage: dict[str, float], now: float) -> None:
        """Note the end; of a command that was started within another one it is that one's which counts."""
        inner = exit_status(self.fds[INSIDE]) if INSIDE in self.fds else None
        self.is_inner = inner is not None
        self.status, self.rusage, self.ended_at = status if inner is None else inner, rusage, now

    def end(self) -> dict[str, Any]:
        """Write what is known of the end."""
        return {
            "id": self.process_id,
            "pid": self.pid,
            "started_at": self.started_at,
            "status": self.status,
            "rusage": self.rusage,
            "ended_at": self.ended_at,
            "released": self.released,
            "inner": self.is_inner,
        }

    def kill(self) -> None:
        """End the command and its process group at once."""
        if self.has_ended:
            if not self.released:
                tree.kill_left(self.pid)  # a wrapper that dies early leaves who waits for it
            return
        if self.adopted:
            # Somebody else reaps it: only the pidfd tells that the number is still its own.
            for flags in (_TO_GROUP, 0):
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self.fds["pidfd"], signal.SIGKILL, None, flags)
            return
        if self.has_gate:
            tree.kill_from(self.pid)
            return
        # Not yet reaped: the number is still this command's, which leads the group.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def end_waiting(self) -> None:
        """End who still waits at the gate of one that has ended: nobody opens it any more."""
        if self.has_gate and not self.released:
            tree.kill_left(self.pid)

    def let_go(self) -> None:
        """Let it go."""
        self.released = True
        with contextlib.suppress(BrokenPipeError):
            os.write(self.release, b"G")
        os.close(self.release)
        self.release = -1

    def hold(self, name: str, fd: int) -> None:
        """Keep a descriptor under a name; one of that name is closed."""
        self.close_name(name)
        self.fds[name] = fd

    def close_name(self, name: str) -> None:
        """Close a descriptor; one that is not there is no error."""
        fd = self.fds.pop(name, -1)
        if fd >= 0:
            os.close(fd)

    def close_outlived(self) -> None:
        """Close what only served a sandbox in which nobody is any more."""
        if self.has_ended and (SANDBOX not in self.fds or is_over(self.fds[SANDBOX])):
            self.close_name(PROXY)
            self.close_name(INTERNET)

    def close(self) -> None:
        """Close all descriptors."""
        while self.fds:
            os.close(self.fds.popitem()[1])
        if self.release >= 0:
            os.close(self.release)
            self.release = -1

    def is_drained(self) -> bool:
        """Tell whether all output has ended and been read, so that nothing is lost with the descriptors."""
        outputs = [self.fds[name] for name in ("stdout", "stderr", "pty") if name in self.fds]
        between = self.fds.get("mid_r", -1)
        return all(has_ended(fd) for fd in outputs) and (between < 0 or not unread_bytes(between))

    def write_exit(self) -> None:
        """Leave the end in the command's folder, whole or not at all.

        Raises:
            OSError: it could not be written.
        """
        if self.folder is not None and "discard" not in self.marks:  # whose log has ended
            os.makedirs(self.folder, 0o700, exist_ok=True)
            path = os.path.join(self.folder, b"exit")
            fresh = path + b".new"
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(self.end(), file)
            os.rename(fresh, path)
        self.recorded = True


class Table:
    """All records by process_id, and those not yet reaped by pid."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._running: dict[int, Record] = {}

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def get(self, process_id: str) -> Record | None:
        """Find a record."""
        return self._records.get(process_id)

    def find(self, process_id: str) -> Record:
        """Find a record.

        Raises:
            SpawnError: `unknown_process`.
        """
        record = self._records.get(process_id)
        if record is None:
            raise SpawnError("unknown_process", None, f"the keeper has no process {process_id!r}")
        return record

    def add(self, launch: Launch, spawned: Spawned, now: float) -> Record:
        """Take a started command, and its descriptors, into care."""
        record = Record.of(launch, spawned, now)
        self._records[launch.process_id] = self._running[spawned.pid] = record
        return record

    def adopt(self, record: Record) -> None:
        """Take over a command of a keeper that has died, which is not there yet; it is reaped elsewhere."""
        self._records[record.process_id] = record

    def ended(self, pid: int, status: int, rusage: dict[str, float], now: float) -> Record | None:
        """Note the end of a reaped process; None if it was no command of ours (a grandchild)."""
        record = self._running.pop(pid, None)
        if record is not None:
            record.end_as(status, rusage, now)
        return record

    def forget(self, record: Record) -> None:
        """Close and drop a record."""
        record.close()
        self._records.pop(record.process_id, None)

    @property
    def has_running(self) -> bool:
        """True while a command runs."""
        return not all(record.has_ended for record in self._records.values())
