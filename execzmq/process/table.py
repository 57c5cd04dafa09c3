"""Own which processes there are: by id and by name, who may take an id, and which finished ones go.

Knows nothing of how they are started or who watches them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from execzmq.errors import Conflict, InvalidRequest, LimitExceeded, ProcessNotFound
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess

MOST_ALIVE = 16_384
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def check_word(word: str, what: str) -> None:
    """Raise InvalidRequest unless `word` is 1 to 64 of `A-Z a-z 0-9 _ -`."""
    if not 0 < len(word) <= 64 or not _ALPHABET.issuperset(word):
        message = f"{what} {word[:80]!r} must be 1 to 64 of the characters A-Z a-z 0-9 _ -"
        raise InvalidRequest(message, fields={what: word[:80]})


def not_found(process_id: str) -> ProcessNotFound:
    """Return the error of an id that no process has."""
    message = f"no process has the id {process_id!r}; list them with `execzmq ps`"
    return ProcessNotFound(message, process_id=process_id)


class ProcessTable:
    """The processes of one backend, in the order in which they were started."""

    def __init__(self) -> None:
        self._by_id: dict[str, ManagedProcess] = {}
        self._living_names: dict[str, str] = {}
        self._alive_ids: set[str] = set()
        self._prefix = secrets.token_hex(4)
        self._made = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ManagedProcess]:
        return iter(list(self._by_id.values()))

    @property
    def alive(self) -> int:
        """Count the processes that are not closed yet."""
        return len(self._alive_ids)

    def living(self) -> list[ManagedProcess]:
        """Return the processes that are not closed yet."""
        return [self._by_id[process_id] for process_id in self._alive_ids]

    def new_id(self) -> str:
        """Make an id that no process has."""
        self._made += 1
        return f"{self._prefix}-{self._made}"

    def get(self, process_id: str) -> ManagedProcess | None:
        """Return the process with that id, if there is one."""
        return self._by_id.get(process_id)

    def get_by_key(self, key: str) -> ManagedProcess | None:
        """Return the process whose spec has that key, if there is one."""
        process = self._by_id.get(key.partition(".")[0])
        return process if process is not None and process.spec.key == key else None

    def after(self, process_id: str | None) -> Iterator[ManagedProcess]:
        """Return those that were added after that one, all where it is not there."""
        processes = list(self._by_id.values())
        numbers = [n for n, process in enumerate(processes, 1) if process.process_id == process_id]
        return iter(processes[numbers[0] :] if numbers else processes)

    def require(self, process_id: str) -> ManagedProcess:
        """Return the process with that id.

        Raises:
            ProcessNotFound: there is none.
        """
        process = self._by_id.get(process_id)
        if process is None:
            raise not_found(process_id)
        return process

    def find(self, id_or_name: str, sees: Callable[[str], bool] = lambda _: True) -> ManagedProcess:
        """Return the process with that id, else with that living name, else the newest finished of that name.

        Args:
            sees: tells of an id whether it is there for whoever asks.

        Raises:
            ProcessNotFound: there is none.
        """
        for process_id in (id_or_name, self._living_names.get(id_or_name, "")):
            if (found := self._by_id.get(process_id)) is not None and sees(process_id):
                return found
        for process in reversed(self._by_id.values()):
            if process.spec.name == id_or_name and sees(process.process_id):
                return process
        message = f"no process has the id or name {id_or_name!r}; list them with `execzmq ps`"
        raise ProcessNotFound(message, process_id=id_or_name)

    def check_new(self, process_id: str, name: str | None) -> None:
        """Check that a process with this id and name may be started.

        Raises:
            InvalidRequest: one of them is no word. Conflict: one is taken. LimitExceeded: there are too many.
        """
        check_word(process_id, "process_id")
        if process_id in self._by_id and self._by_id[process_id].life is not Life.FAILED:
            message = f"the process_id {process_id!r} is taken; choose another or forget that process"
            raise Conflict(message, process_id=process_id)
        if name is not None:
            check_word(name, "name")
            holder = self._living_names.get(name)
            if holder is not None:
                message = f"the name {name!r} is taken by the living process {holder}"
                raise Conflict(message, process_id=holder, name=name)
            if name in self._by_id and name != process_id:
                message = f"{name!r} is the id of another process, which would be found under that name"
                raise Conflict(f"{message}; choose another, or forget that one", process_id=name, name=name)
        if self.alive >= MOST_ALIVE:
            message = f"{MOST_ALIVE} processes are alive already; end some first"
            raise LimitExceeded(message, limit=MOST_ALIVE, value=self.alive)

    def add(self, process: ManagedProcess) -> ManagedProcess | None:
        """Add a process; return the failed one that had its id before, if any."""
        before = self._by_id.pop(process.process_id, None)
        self._by_id[process.process_id] = process
        if process.life.is_over:
            return before
        self._alive_ids.add(process.process_id)
        if process.spec.name is not None:
            self._living_names[process.spec.name] = process.process_id
        return before

    def ended(self, process: ManagedProcess) -> None:
        """Free the name of a process that is over."""
        self._alive_ids.discard(process.process_id)
        name = process.spec.name
        if name is not None and self._living_names.get(name) == process.process_id:
            del self._living_names[name]

    def remove(self, process: ManagedProcess) -> None:
        """Drop a process that is over."""
        if self._by_id.get(process.process_id) is process:
            del self._by_id[process.process_id]
