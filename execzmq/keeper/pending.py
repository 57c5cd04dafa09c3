"""Who waits at the server's end for an answer of the keeper.

Owns what is to come of each request. It must not know sockets or descriptors.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from execzmq.keeper.handover import SpawnedProcess
from execzmq.keeper.outcome import Outcome


@dataclass(slots=True)
class Pending:
    """Who waits for an answer."""

    spawns: dict[str, Outcome[SpawnedProcess]] = field(default_factory=dict)
    listeners: dict[str, Outcome[int]] = field(default_factory=dict)
    releases: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    ready: asyncio.Future[None] | None = None
    end: asyncio.Future[None] | None = None

    def spawn(self, process_id: str) -> Outcome[SpawnedProcess]:
        """Return what is to come of a spawn. Raises ValueError where one of that id is under way."""
        if process_id in self.spawns:
            raise ValueError(f"a spawn of {process_id!r} is under way")
        outcome = self.spawns[process_id] = Outcome()
        return outcome

    def listen(self, process_id: str) -> Outcome[int]:
        """Return what is to come of a listener. Raises ValueError where one of that id is under way."""
        if process_id in self.listeners:
            raise ValueError(f"a listener of {process_id!r} is under way")
        outcome = self.listeners[process_id] = Outcome()
        return outcome

    def give_up(self, process_id: str, error: Exception) -> None:
        """Let a spawn fail without its answer, which is still expected."""
        if outcome := self.spawns.get(process_id):
            outcome.fail(error)

    def fail(self, error: Exception) -> None:
        """Give everyone the same error."""
        spawns, self.spawns = self.spawns, {}
        listeners, self.listeners = self.listeners, {}
        releases, self.releases = self.releases, {}
        for outcome in spawns.values():
            outcome.fail(error)
        for listener in listeners.values():
            listener.fail(error)
        for future in (*releases.values(), self.ready):
            fail(future, error)

    def refuse(self, request: str, process_id: str, error: Exception) -> bool:
        """Give an error to whoever waits for that answer; False where nobody ever waits for one."""
        match request:
            case "spawn":
                if outcome := self.spawns.pop(process_id, None):
                    outcome.fail(error)
            case "listen":
                if listener := self.listeners.pop(process_id, None):
                    listener.fail(error)
            case "release":
                fail(self.releases.pop(process_id, None), error)
            case "quit":
                fail(self.end, error)
            case _:
                return False
        return True


def resolve(future: asyncio.Future[None] | None) -> None:
    """Give a future that is waited for its result."""
    if future is not None and not future.done():
        future.set_result(None)


def fail(future: asyncio.Future[Any] | None, error: Exception) -> None:
    """Give a future that is waited for an error."""
    if future is not None and not future.done():
        future.set_exception(error)
