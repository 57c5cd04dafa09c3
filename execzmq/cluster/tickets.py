"""Own what the scheduler knows of commands that want a place: one ticket each. Pure.

A ticket is `waiting` until a worker that has a slot for it has made an offer, `offered` until its client has
started the command there, `started` while it runs, and `over`. A client takes the first offer alone, so that
a task that Dask runs again, after the loss of a worker, starts nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from execzmq.errors import Conflict

State = Literal["waiting", "offered", "started", "over"]


@dataclass(slots=True)
class Ticket:
    """One command on its way to a host.

    Args:
        client: who wants it.
        offer: what the worker says of its host; see `working.Offer`.
        problem: why it is over though it was never started; empty where that is not so.
        revision: of all the tickets, when this one changed last.
    """

    process_id: str
    client: str
    state: State = "waiting"
    offer: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    revision: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return what is told of it."""
        return {
            "process_id": self.process_id,
            "state": self.state,
            "offer": dict(self.offer),
            "problem": self.problem,
        }


def taken(process_id: str) -> Conflict:
    """Return the error of an id whose command is on its way, or runs."""
    message = f"a command with the id {process_id!r} is on its way or runs; use another id"
    return Conflict(message, process_id=process_id)


class Tickets:
    """All tickets of a cluster, in the order in which they changed."""

    def __init__(self) -> None:
        self._tickets: dict[str, Ticket] = {}
        self._revision = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def open(self, process_id: str, client: str) -> Ticket:
        """Make a ticket.

        Raises:
            Conflict: the id has one already.
        """
        if process_id in self._tickets:
            raise taken(process_id)
        return self._change(Ticket(process_id, client))

    def offer(self, process_id: str, offer: Mapping[str, Any]) -> Ticket | None:
        """Take an offer, if it is the first; return the ticket as it is now, `None` where there is none."""
        ticket = self._tickets.get(process_id)
        if ticket is None or ticket.state != "waiting":
            return ticket
        ticket.state, ticket.offer = "offered", dict(offer)
        return self._change(ticket)

    def start(self, process_id: str) -> Ticket | None:
        """Note that the client has started the command, or may have."""
        ticket = self._tickets.get(process_id)
        if ticket is None or ticket.state != "offered":
            return None
        ticket.state = "started"
        return self._change(ticket)

    def end(self, process_id: str, problem: str = "") -> Ticket | None:
        """Note that the task of a ticket has ended; `problem` matters where nothing was started before."""
        ticket = self._tickets.get(process_id)
        if ticket is None or ticket.state == "over":
            return None
        ticket.problem = problem if ticket.state == "waiting" else ""
        ticket.state = "over"
        return self._change(ticket)

    def drop(self, process_id: str) -> Ticket | None:
        """Forget a ticket, whatever it is; return it, `None` where there is none."""
        return self._tickets.pop(process_id, None)

    def drop_client(self, client: str) -> list[Ticket]:
        """Forget the tickets of a client whose name begins so; return them."""
        gone = [ticket for ticket in self._tickets.values() if ticket.client.startswith(client)]
        return [ticket for ticket in gone if self.drop(ticket.process_id)]

    def get(self, process_id: str) -> Ticket | None:
        """Return a ticket, `None` where there is none."""
        return self._tickets.get(process_id)

    def changes(self, client: str, after: int) -> tuple[int, list[Ticket]]:
        """Return a client's tickets that have changed since a revision, and the revision of the newest."""
        changed = [t for t in self._tickets.values() if t.revision > after and t.client == client]
        return max((ticket.revision for ticket in changed), default=after), changed

    def _change(self, ticket: Ticket) -> Ticket:
        self._revision += 1
        ticket.revision = self._revision
        self._tickets[ticket.process_id] = ticket
        return ticket
