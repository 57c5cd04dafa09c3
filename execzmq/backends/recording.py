"""Own what a backend writes down of its processes, and what it does where the disk does not take it.

The keeper forgets a command only when the journal knows its end. Knows nothing of how processes are started.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from execzmq.backends.keeping import Keeping
from execzmq.backends.records import end_record, journal_records, start_record
from execzmq.errors import SpawnFailed
from execzmq.process.held import Memory
from execzmq.process.index import Record
from execzmq.process.journal import Journal
from execzmq.process.managed import ManagedProcess
from execzmq.process.shortage import Shortage
from execzmq.process.spec import ProcessSpec
from execzmq.process.table import ProcessTable

_LEAST_SLACK = 64
"""Records of what is forgotten that the journal may have while the disk is full."""


class Recording:
    """The journal of one state folder, and the memory for what the disk does not take.

    Args:
        make_room: called to let go of logs what may go, while the disk is full.
    """

    def __init__(
        self, folder: Path, table: ProcessTable, keeping: Keeping, make_room: Callable[[], None]
    ) -> None:
        self.memory = Memory()
        self._table = table
        self._let_go = make_room
        self._shortage = Shortage(folder, self.memory, self._make_room, self._catch_up)
        self.journal = Journal(folder / "journal", self._shortage.refused)
        self._keeping = keeping
        self._unforgotten: list[str] = []

    def replay(self) -> list[dict[str, Any]]:
        """Return the records of earlier lives. Raises OSError: they cannot be read."""
        self._shortage.begin()
        return self.journal.replay()

    def start(self) -> None:
        """Take the reserve, when all that an earlier life has left is taken over."""
        self._shortage.start()

    def close(self) -> None:
        """Write what is owed, as far as the disk takes it, and stop; idempotent."""
        self._shortage.close()

    @property
    def degraded_count(self) -> int:
        """Count the processes whose newest output the disk has not taken yet."""
        return self._shortage.degraded_count

    def begun(self, spec: ProcessSpec) -> None:
        """Write a start, without which the next server would not know the command.

        Raises:
            SpawnFailed: the disk is full or fails; nothing was begun.
        """
        try:
            self._shortage.check_room()
            self.journal.append(start_record(spec))
        except OSError as error:
            message = f"the start cannot be written down in the server's state folder: {error.strerror}"
            message += "; make room on its disk, or forget finished processes, and start again"
            raise SpawnFailed(message, reason="journal", errno=error.errno) from None

    def note(self, record: Mapping[str, Any]) -> None:
        """Write a record now or later."""
        self.journal.note(record)

    def shorten(self, slack: int) -> None:
        """Write the journal anew when it lacks something, or has many records of what is forgotten."""
        if self.journal.is_behind or self.journal.records > slack + 4 * len(self._table):
            with contextlib.suppress(OSError):  # there may be room the next time
                self.journal.compact(r for process in self._table for r in journal_records(process))

    def _make_room(self) -> None:
        self._let_go()
        self.shorten(_LEAST_SLACK)

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """Try the disk again for a log; the next server is to know that its end may be missing."""
        self._mark(process, "degraded", True)
        self._shortage.add(process, error)

    def recovered(self, process: ManagedProcess) -> None:
        """Note that a log stands on disk; that of one that is over is found there from now on."""
        self._mark(process, "degraded", False)
        self._mark(process, "stored", True)
        if process.life.is_over:
            self.note(end_record(process))

    def forgotten(self, process: ManagedProcess) -> None:
        """Do nothing more for a log that is removed."""
        self._shortage.remove(process)

    def released(self, process: ManagedProcess) -> None:
        """Let the keeper give up what it holds of a process, as soon as the journal knows its end."""
        self._unforgotten.append(process.spec.key)
        if not self.journal.owes:
            self._let_keeper_forget()

    def _let_keeper_forget(self) -> None:
        keys, self._unforgotten = self._unforgotten, []
        if self._keeping.is_connected:
            for key in keys:
                self._keeping.client.forget(key)

    def stored(self, process: ManagedProcess, record: Record) -> None:
        """Note that an event stands on disk: if its files go, the next server is to know that.

        The first output is what makes them.
        """
        if record.kind == "output" and record.stdout_end + record.stderr_end == record.length:
            self._mark(process, "stored", True)

    def _mark(self, process: ManagedProcess, flag: str, on: bool) -> None:
        if process.has_begun and not process.life.is_over and self._keeping.is_connected:
            self._keeping.client.mark(process.spec.key, flag, on)

    def _catch_up(self) -> bool:
        """Write what the journal lacks; return whether that is done."""
        if not self.journal.catch_up():
            return False
        self._let_keeper_forget()
        return True
