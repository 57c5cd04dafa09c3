"""Own the scheduler's part: the tickets as a plugin of Dask's scheduler, and who waits for what of them.

Neither commands nor their output ever come here: a ticket holds ids, and what a worker says of its host.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from execzmq.cluster.tickets import Ticket, Tickets
from execzmq.errors import ExecZMQError, to_wire

PREFIX = "execzmq-"
"""How the keys of our tasks begin; the rest is the process_id."""
POLL_SECONDS = 5.0
"""Seconds for which whoever asks for news waits at most."""

_ENDS = {"memory": "", "erred": "the task that was to find a place for it failed", "forgotten": "cancelled"}


class Placements(SchedulerPlugin):
    """Keeps the tickets, and answers clients and workers."""

    name = "execzmq"
    idempotent = True

    def __init__(self) -> None:
        self._tickets = Tickets()
        self._bells: dict[str, asyncio.Event] = {}

    def __reduce__(self) -> tuple[type[Placements], tuple[()]]:
        return Placements, ()  # one that travels is as new

    async def start(self, scheduler: Scheduler) -> None:
        """Take a place at the scheduler."""
        self._scheduler = scheduler
        for name in ("open", "offer", "started", "drop", "changes"):
            scheduler.handlers[f"execzmq_{name}"] = getattr(self, name)

    # Asked by clients

    async def open(self, process_id: str, client: str) -> dict[str, Any]:
        """Make a ticket; the answer is empty, or the error."""
        try:
            self._tickets.open(process_id, client)
        except ExecZMQError as error:
            return to_wire(error)
        return {}

    async def started(self, process_id: str) -> None:
        """Note that the command was started, or may have been."""
        self._tell(self._tickets.start(process_id))

    async def drop(self, process_ids: list[str]) -> None:
        """Forget tickets."""
        for process_id in process_ids:
            self._tell(self._tickets.drop(process_id))

    async def changes(self, client: str, after: int) -> dict[str, Any]:
        """Return the tickets of a client that have changed when there are some, or none after a while."""
        revision, changed = self._tickets.changes(client, after)
        if not changed:
            await self._ring(client)
            revision, changed = self._tickets.changes(client, after)
        return {"revision": revision, "tickets": [ticket.to_wire() for ticket in changed]}

    # Asked by workers

    async def offer(self, process_id: str, offer: dict[str, Any]) -> dict[str, Any]:
        """Take the offer of a worker with a free slot; return the ticket when settled, or after a while."""
        ticket = self._tickets.offer(process_id, offer)
        self._tell(ticket)
        if ticket is not None and ticket.state == "offered":
            await self._ring(process_id)
            ticket = self._tickets.get(process_id)
        return {"state": "over"} if ticket is None else ticket.to_wire()

    # Told by Dask

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Note the end of one of our tasks."""
        if finish not in _ENDS or not isinstance(key, str) or not key.startswith(PREFIX):
            return
        task = self._scheduler.tasks.get(key)
        said = task.exception_text if finish == "erred" and task is not None else None
        problem = f"{_ENDS[finish]}: {said}" if said else _ENDS[finish]
        self._tell(self._tickets.end(key.removeprefix(PREFIX), problem))

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Forget what a client that has gone has asked for."""
        for ticket in self._tickets.drop_client(client):
            self._tell(ticket)

    # Bells

    def _tell(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            for name in (ticket.process_id, ticket.client):
                if (bell := self._bells.pop(name, None)) is not None:
                    bell.set()

    async def _ring(self, name: str) -> None:
        """Wait until something has changed, or a while."""
        bell = self._bells.setdefault(name, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await bell.wait()
