"""Own the question which process of the machine belongs to which command; pure: it is told what there is.

Evidence, the surest first: it was seen as a member before; it is in the session that the command leads (and
so in any of its groups); its parent is a member; it has lost its parent, and carries the command's mark in
its env or can write to one of its streams. What hangs below the keeper without any of these is a stray.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

StreamId = tuple[int, int]
"""Device and inode of a pipe or terminal."""


class Identity(NamedTuple):
    """A process beyond doubt: its number may come back, not together with its start time."""

    pid: int
    start: int


class Entry(NamedTuple):
    """A process as one look at the machine shows it.

    Attributes:
        start: in the system's ticks.
        state: its letter.
        cpu: seconds that it has used, and the children that it has waited for.
        memory: bytes that are resident.
    """

    pid: int
    ppid: int
    session: int
    start: int
    state: str
    cpu: float = 0.0
    memory: int = 0

    @property
    def identity(self) -> Identity:
        """Name the process beyond doubt."""
        return Identity(self.pid, self.start)

    @property
    def is_stopped(self) -> bool:
        """Tell whether it is stopped by job control."""
        return self.state == "T"


class Evidence(NamedTuple):
    """What a process without a known parent carries: the value of the mark and the streams that it holds."""

    mark: bytes | None
    streams: frozenset[StreamId]


@dataclass(slots=True, eq=False)
class Scope:
    """What tells which processes belong to one command.

    Args:
        pid: the command itself, which leads a session of the same number.
        pidfd: of the command, owned by whoever made it; `None` or -1 where there is none (any more).
        mark: value of the mark in its env; `None` = it has none.
        streams: its pipes and its terminal, as `stream_id` names them.
        start: when it started; 0 = not known (yet).
        known: members that were alive when one last looked.
        session_over: the session has no member left, so its number may be that of another one.
        wrappers: members around a sandbox: asked to end they would end what is inside at once.
    """

    pid: int
    pidfd: int | None = None
    mark: bytes | None = None
    streams: frozenset[StreamId] = frozenset()
    start: int = 0
    known: frozenset[Identity] = frozenset()
    session_over: bool = False
    wrappers: frozenset[int] = frozenset()


class Belongings(NamedTuple):
    """The living members of a scope, and the strays that may be of it."""

    members: tuple[Entry, ...]
    strays: tuple[Entry, ...]


_STRAY = Scope(0)
"""Owner of what hangs below the keeper and is nobody's."""


class Census:
    """One look at the machine, and whose each process is.

    Args:
        entries: the living processes by pid; no zombies.
        scopes: all commands whose processes may still be alive.
        protected: the server, the keeper and all their ancestors: nobody's members.
        keeper: pid of the keeper.
        look: return the evidence of a process; `None` where it may not be looked at.
    """

    def __init__(
        self,
        entries: Mapping[int, Entry],
        scopes: Iterable[Scope],
        *,
        protected: Collection[int],
        keeper: int,
        look: Callable[[int], Evidence | None],
    ) -> None:
        self._entries = entries
        self._keeper = keeper
        self._look = look
        self._orphanage = {0, 1, keeper, *protected}
        self._owners: dict[int, Scope | None] = dict.fromkeys(protected)
        self._by_session: dict[int, Scope] = {}
        self._by_identity: dict[Identity, Scope] = {}
        self._by_mark: dict[bytes, Scope] = {}
        self._by_stream: dict[StreamId, Scope] = {}
        for scope in scopes:
            self._register(scope)
        for pid in entries:
            self._find_owner(pid)
        self._owned: dict[Scope, list[Entry]] = {}
        for pid, owner in self._owners.items():
            if owner is not None:
                self._owned.setdefault(owner, []).append(entries[pid])

    def of(self, scope: Scope) -> Belongings:
        """Return what belongs to a scope that was among `scopes`, and the strays no older than it."""
        members = self._owned.get(scope, ())
        strays = self._owned.get(_STRAY, ())
        return Belongings(tuple(members), tuple(entry for entry in strays if entry.start >= scope.start))

    def session_is_over(self, scope: Scope) -> bool:
        """Tell whether nobody is left in the session that the command led."""
        members = self._owned.get(scope, ())
        return scope.session_over or not any(entry.session == scope.pid for entry in members)

    def _register(self, scope: Scope) -> None:
        if not scope.session_over and not self._number_is_taken(scope):
            self._by_session[scope.pid] = scope
        self._by_identity.update(dict.fromkeys(scope.known, scope))
        self._by_stream.update(dict.fromkeys(scope.streams, scope))
        if scope.mark is not None:
            self._by_mark[scope.mark] = scope

    def _number_is_taken(self, scope: Scope) -> bool:
        """A session's number is given to no new process while anybody is in it."""
        entry = self._entries.get(scope.pid)
        return entry is not None and entry.start != scope.start

    def _find_owner(self, pid: int) -> None:
        """Walk up to somebody whose owner is known; all on the way have the same one."""
        path: list[int] = []
        owner: Scope | None = None
        while pid not in self._owners:
            self._owners[pid] = None
            path.append(pid)
            entry = self._entries[pid]
            owner = self._direct(entry)
            if owner is not None:
                break
            if self._is_orphan(entry):
                owner = self._by_evidence(entry)
                break
            pid = entry.ppid
        else:
            owner = self._owners[pid]
        self._owners.update(dict.fromkeys(path, owner))

    def _direct(self, entry: Entry) -> Scope | None:
        return self._by_identity.get(entry.identity) or self._by_session.get(entry.session)

    def _is_orphan(self, entry: Entry) -> bool:
        """Tell whether the real parent is gone: adopted, or its number is that of a younger process."""
        if entry.ppid in self._orphanage:
            return True
        parent = self._entries.get(entry.ppid)
        return parent is None or parent.start > entry.start

    def _by_evidence(self, entry: Entry) -> Scope | None:
        evidence = self._look(entry.pid)
        if evidence is not None:
            for scope in self._claimants(evidence):
                if entry.start >= scope.start:
                    return scope
            if evidence.mark is not None:
                return None  # of a command that is being started, or of another server
        return _STRAY if entry.ppid == self._keeper else None

    def _claimants(self, evidence: Evidence) -> Iterable[Scope]:
        if evidence.mark is not None and evidence.mark in self._by_mark:
            yield self._by_mark[evidence.mark]
        for stream in evidence.streams:
            if stream in self._by_stream:
                yield self._by_stream[stream]
