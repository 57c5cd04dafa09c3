"""The table of a process's life: every pair of state and fact, every order in which an end can come."""

import itertools

import pytest

from execzmq.errors import InvalidState
from execzmq.process.lifecycle import TABLE, Action, Fact, Life, step
from scripts.state_diagram import PAGE, with_diagram

ALIVE = (Life.RUNNING, Life.RUNNING_SILENT, Life.STOPPING, Life.STOPPING_SILENT)
POSSIBLE = {
    Life.STARTING: {Fact.SPAWNED, Fact.SPAWN_FAILED},
    Life.RUNNING: {Fact.STOP_REQUESTED, Fact.EXITED, Fact.STREAMS_ENDED, Fact.LOST},
    Life.RUNNING_SILENT: {Fact.STOP_REQUESTED, Fact.EXITED, Fact.LOST},
    Life.STOPPING: {Fact.STOP_REQUESTED, Fact.EXITED, Fact.STREAMS_ENDED, Fact.LOST},
    Life.STOPPING_SILENT: {Fact.STOP_REQUESTED, Fact.EXITED, Fact.LOST},
    Life.EXITED: {Fact.STOP_REQUESTED, Fact.STREAMS_ENDED, Fact.DRAIN_OVER, Fact.LOST},
    Life.CLOSED: {Fact.STOP_REQUESTED, Fact.STREAMS_ENDED},
    Life.FAILED: set(),
}


@pytest.mark.parametrize(("life", "fact"), list(itertools.product(Life, Fact)), ids=lambda value: value.name)
def test_every_pair(life: Life, fact: Fact) -> None:
    """A fact that can come has a next state; any other is an error that names both."""
    if fact in POSSIBLE[life]:
        after, _ = step(life, fact)
        assert isinstance(after, Life)
        return
    with pytest.raises(InvalidState) as caught:
        step(life, fact)
    assert life.value in str(caught.value)
    assert fact.value in str(caught.value)


def take(facts: tuple[Fact, ...]) -> tuple[Life, list[Action]]:
    """Take facts from the start on; a timer that does not run any more gives none."""
    life, done = step(Life.STARTING, Fact.SPAWNED)
    actions = list(done)
    for fact in facts:
        if fact is Fact.DRAIN_OVER and life is not Life.EXITED:
            continue  # its timer runs only from the exit to the end
        life, done = step(life, fact)
        actions += done
    return life, actions


ORDERS = list(itertools.permutations((Fact.EXITED, Fact.STREAMS_ENDED, Fact.STOP_REQUESTED, Fact.DRAIN_OVER)))


@pytest.mark.parametrize("facts", ORDERS, ids=lambda facts: "-".join(fact.name for fact in facts))
def test_every_order_of_an_end(facts: tuple[Fact, ...]) -> None:
    """In whatever order the facts come, exit and end are recorded once, and the exit before the end."""
    life, actions = take(facts)
    assert life is Life.CLOSED
    assert actions.count(Action.RECORD_STARTED) == 1
    assert actions.count(Action.RECORD_EXITED) == 1
    assert actions.count(Action.RECORD_CLOSED) == 1
    assert actions.index(Action.RECORD_EXITED) < actions.index(Action.RECORD_CLOSED)
    drained = Action.NAME_HOLDERS in actions
    assert drained == (Action.DISCARD in actions)
    if drained:
        assert actions.index(Action.NAME_HOLDERS) < actions.index(Action.RECORD_CLOSED)


@pytest.mark.parametrize("life", ALIVE)
def test_silence_is_no_exit(life: Life) -> None:
    """While the command lives nothing closes it but its exit, or the loss of it."""
    for fact in POSSIBLE[life] - {Fact.EXITED, Fact.LOST}:
        after, actions = step(life, fact)
        assert after in ALIVE
        assert not actions


@pytest.mark.parametrize("life", ALIVE)
def test_lost_records_a_whole_end(life: Life) -> None:
    """A process that is out of reach gets its exit and its end, so that nobody waits for ever."""
    assert step(life, Fact.LOST) == (Life.CLOSED, (Action.RECORD_EXITED, Action.RECORD_CLOSED))


def test_what_is_over_stays_over() -> None:
    """No fact leads out of an end."""
    for (before, _), (after, actions) in TABLE.items():
        if before.is_over:
            assert after is before
            assert not actions


def test_public_names() -> None:
    """The silent states are shown as what the command is: running, or being stopped."""
    assert {life: life.public for life in ALIVE} == {
        Life.RUNNING: "running",
        Life.RUNNING_SILENT: "running",
        Life.STOPPING: "stopping",
        Life.STOPPING_SILENT: "stopping",
    }


def test_exited_and_over() -> None:
    """What is over has exited; a command that has exited may not be over."""
    assert {life for life in Life if life.is_over} == {Life.CLOSED, Life.FAILED}
    assert {life for life in Life if life.has_exited} == {Life.EXITED, Life.CLOSED, Life.FAILED}


def test_page_shows_the_table() -> None:
    """The diagram in the documentation is the one of the table; `scripts/state_diagram.py` writes it."""
    assert PAGE.read_text() == with_diagram(PAGE.read_text())
