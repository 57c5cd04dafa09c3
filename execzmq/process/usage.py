"""Own the adding up of what a command's processes use; pure: it is told who lives and what each has used."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from execzmq.process.census import Entry, Identity
from execzmq.types.results import ProcessUsage


class Meter:
    """Measures one command again and again.

    The processor time of who has ended is in its parent's, if that has waited for it. Of whoever had no
    parent among the members, what was seen last is kept here.
    """

    def __init__(self) -> None:
        self._seen: dict[Identity, Entry] = {}
        self._gone = self._told = 0.0

    def take(self, members: Iterable[Entry], wrappers: Collection[int] = ()) -> ProcessUsage:
        """Return what is used now.

        Args:
            members: all that live.
            wrappers: pids of those that are not of the command; only the time that they have is its own.
        """
        living = {member.identity: member for member in members}
        parents = {identity.pid for identity in self._seen}
        ended = (entry for identity, entry in self._seen.items() if identity not in living)
        self._gone += sum(entry.cpu for entry in ended if entry.ppid not in parents)
        self._seen = living
        # Who ends unseen is missing until it is waited for, and the next look finds its time at the parent.
        self._told = max(self._told, self._gone + sum(entry.cpu for entry in living.values()))
        own = [entry for entry in living.values() if entry.pid not in wrappers]
        return ProcessUsage(self._told, sum(entry.memory for entry in own), len(own))
