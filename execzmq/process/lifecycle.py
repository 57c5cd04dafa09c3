"""Own the life of a process as a table: which fact may come when, and what must be done then. Pure.

Three facts end a process: its command has exited, its streams have ended, and (where asked for) the wait for
the streams has run out. They come in any order but for one rule: `closed` never comes before `exited`.
An absent pair of state and event is an error that names both.
"""

from __future__ import annotations

from enum import Enum

from execzmq.errors import InvalidState
from execzmq.types.results import State


class _Word(Enum):
    """A word of the table; its hash is its identity, since that of an Enum runs in Python."""

    __hash__ = object.__hash__


class Life(_Word):
    """Where a process is in its life; the value is what the outside calls it."""

    STARTING = "starting"
    RUNNING = "running"
    RUNNING_SILENT = "running (streams ended)"
    STOPPING = "stopping"
    STOPPING_SILENT = "stopping (streams ended)"
    EXITED = "exited"
    CLOSED = "closed"
    FAILED = "failed"

    @property
    def public(self) -> State:
        """Return the state under which the process is shown."""
        return self.value.split(" ")[0]  # type: ignore[return-value]  # the values above begin with a State

    @property
    def is_over(self) -> bool:
        """Tell whether no event can follow any more."""
        return self in (Life.CLOSED, Life.FAILED)

    @property
    def has_exited(self) -> bool:
        """Tell whether the command itself is over."""
        return self in (Life.EXITED, Life.CLOSED, Life.FAILED)


class Fact(_Word):
    """What can happen to a process."""

    SPAWNED = "spawned"
    SPAWN_FAILED = "spawn failed"
    STOP_REQUESTED = "stop requested"
    EXITED = "command exited"
    STREAMS_ENDED = "streams ended"
    DRAIN_OVER = "wait for the streams over"
    LOST = "lost"


class Action(_Word):
    """What the owner of the process must do, in this order."""

    RECORD_STARTED = "record started"
    RECORD_FAILED = "record failed"
    RECORD_EXITED = "record exited"
    AWAIT_STREAMS = "start the wait for the streams"
    NAME_HOLDERS = "name who holds the streams"
    RECORD_CLOSED = "record closed"
    DISCARD = "discard further output"


_END = (Action.RECORD_EXITED, Action.RECORD_CLOSED)

TABLE: dict[tuple[Life, Fact], tuple[Life, tuple[Action, ...]]] = {
    (Life.STARTING, Fact.SPAWNED): (Life.RUNNING, (Action.RECORD_STARTED,)),
    (Life.STARTING, Fact.SPAWN_FAILED): (Life.FAILED, (Action.RECORD_FAILED,)),
    (Life.RUNNING, Fact.STOP_REQUESTED): (Life.STOPPING, ()),
    (Life.RUNNING, Fact.EXITED): (Life.EXITED, (Action.RECORD_EXITED, Action.AWAIT_STREAMS)),
    (Life.RUNNING, Fact.STREAMS_ENDED): (Life.RUNNING_SILENT, ()),
    (Life.RUNNING, Fact.LOST): (Life.CLOSED, _END),
    (Life.RUNNING_SILENT, Fact.STOP_REQUESTED): (Life.STOPPING_SILENT, ()),
    (Life.RUNNING_SILENT, Fact.EXITED): (Life.CLOSED, _END),
    (Life.RUNNING_SILENT, Fact.LOST): (Life.CLOSED, _END),
    (Life.STOPPING, Fact.STOP_REQUESTED): (Life.STOPPING, ()),
    (Life.STOPPING, Fact.EXITED): (Life.EXITED, (Action.RECORD_EXITED, Action.AWAIT_STREAMS)),
    (Life.STOPPING, Fact.STREAMS_ENDED): (Life.STOPPING_SILENT, ()),
    (Life.STOPPING, Fact.LOST): (Life.CLOSED, _END),
    (Life.STOPPING_SILENT, Fact.STOP_REQUESTED): (Life.STOPPING_SILENT, ()),
    (Life.STOPPING_SILENT, Fact.EXITED): (Life.CLOSED, _END),
    (Life.STOPPING_SILENT, Fact.LOST): (Life.CLOSED, _END),
    (Life.EXITED, Fact.STOP_REQUESTED): (Life.EXITED, ()),
    (Life.EXITED, Fact.STREAMS_ENDED): (Life.CLOSED, (Action.RECORD_CLOSED,)),
    (Life.EXITED, Fact.DRAIN_OVER): (
        Life.CLOSED,
        (Action.NAME_HOLDERS, Action.RECORD_CLOSED, Action.DISCARD),
    ),
    (Life.EXITED, Fact.LOST): (Life.CLOSED, (Action.RECORD_CLOSED,)),
    (Life.CLOSED, Fact.STOP_REQUESTED): (Life.CLOSED, ()),
    (Life.CLOSED, Fact.STREAMS_ENDED): (Life.CLOSED, ()),
}


def step(life: Life, fact: Fact) -> tuple[Life, tuple[Action, ...]]:
    """Return the next state and what must be done on the way.

    Raises:
        InvalidState: the fact cannot come in that state.
    """
    try:
        return TABLE[life, fact]
    except KeyError:
        message = f"a process that is {life.value} cannot take: {fact.value}"
        raise InvalidState(message, state=life.public, fact=fact.value) from None
