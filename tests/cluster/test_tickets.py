"""Tickets: one start per id, whatever becomes of the tasks that look for a place."""

import itertools

import pytest

from execzmq.cluster.tickets import Ticket, Tickets
from execzmq.errors import Conflict

OFFER = {"server": "s1", "host": "one"}
OTHER = {"server": "s2", "host": "two"}


@pytest.fixture
def tickets() -> Tickets:
    """A client `c/1` wants a place for `p`."""
    tickets = Tickets()
    tickets.open("p", "c/1")
    return tickets


def state_of(ticket: Ticket | None) -> str:
    """Return the state of a ticket that there is."""
    assert ticket is not None
    return ticket.state


def test_the_first_offer_counts(tickets: Tickets) -> None:
    """A second one, as of a task that runs again, changes nothing, and learns where the first was."""
    assert state_of(tickets.offer("p", OFFER)) == "offered"
    again = tickets.offer("p", OTHER)
    assert again is not None
    assert (again.state, again.offer) == ("offered", OFFER)
    tickets.start("p")
    assert state_of(tickets.offer("p", OTHER)) == "started"


def test_an_id_has_one_ticket(tickets: Tickets) -> None:
    """Who wants the same id meets a conflict, until the ticket is dropped."""
    with pytest.raises(Conflict):
        tickets.open("p", "c/2")
    tickets.drop("p")
    assert tickets.open("p", "c/2").state == "waiting"


@pytest.mark.parametrize(("offered", "problem"), [(False, "no worker"), (True, "")])
def test_the_end_of_a_task_is_a_problem_before_an_offer_only(
    tickets: Tickets, offered: bool, problem: str
) -> None:
    """After it, the client knows from the server itself what becomes of the command."""
    if offered:
        tickets.offer("p", OFFER)
    ended = tickets.end("p", "no worker")
    assert ended is not None
    assert (ended.state, ended.problem) == ("over", problem)
    assert tickets.end("p") is None


def test_no_start_without_an_offer(tickets: Tickets) -> None:
    """A ticket that waits, or is not there, is not started."""
    assert tickets.start("p") is None
    assert tickets.start("q") is None
    assert tickets.offer("q", OFFER) is None


def test_changes_are_told_once_and_to_their_client(tickets: Tickets) -> None:
    """Whoever asks with the revision of the answer before hears what has changed since."""
    tickets.open("q", "c/2")
    revision, changed = tickets.changes("c/1", 0)
    assert [ticket.process_id for ticket in changed] == ["p"]
    assert tickets.changes("c/1", revision) == (revision, [])
    tickets.offer("p", OFFER)
    revision, [ticket] = tickets.changes("c/1", revision)
    assert ticket.to_wire() == {"process_id": "p", "state": "offered", "offer": OFFER, "problem": ""}
    assert tickets.changes("c/2", 0)[1][0].process_id == "q"


def test_a_client_that_has_gone_leaves_no_ticket(tickets: Tickets) -> None:
    """All that its sessions had go, and nobody else's."""
    tickets.open("q", "c/2")
    tickets.open("r", "d/1")
    assert {ticket.process_id for ticket in tickets.drop_client("c")} == {"p", "q"}
    assert len(tickets) == 1


def test_any_order_of_what_happens_starts_once() -> None:
    """Offers of two tasks, the start, the end and the loss of a task: `started` is reached once at most."""
    for steps in itertools.permutations(("offer", "other", "start", "end", "drop")):
        tickets = Tickets()
        tickets.open("p", "c")
        starts = []
        for step in steps:
            if step in ("offer", "other"):
                tickets.offer("p", OFFER if step == "offer" else OTHER)
            elif step == "start":
                starts.append(tickets.start("p"))
            elif step == "end":
                tickets.end("p")
            else:
                tickets.drop("p")
        assert len([one for one in starts if one is not None]) <= 1
        assert tickets.get("p") is None or steps.index("drop") > len(steps)
