"""Own the events of a process as callers see them; on the hot path, so plain slotted dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from execzmq.types.results import ExitResult

Stream = Literal["stdout", "stderr"]


@dataclass(slots=True, frozen=True)
class Started:
    """The command runs."""

    seq: int
    pid: int
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Output:
    """Bytes that the command wrote; `offset` is their place in that stream."""

    seq: int
    stream: Stream
    offset: int
    data: bytes
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Exited:
    """The command itself has ended; its streams may still be open."""

    seq: int
    result: ExitResult
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Closed:
    """The command and its streams have ended; nothing follows."""

    seq: int
    result: ExitResult
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Failed:
    """The command could not be started; `error` has `ename`, `evalue` and `details`. Nothing follows."""

    seq: int
    error: dict[str, Any]
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Notice:
    """Something worth knowing about the process that is neither output nor an end."""

    seq: int
    kind: str
    data: dict[str, Any]
    time: float = 0.0


@dataclass(slots=True, frozen=True)
class Gap:
    """Output events `from_seq` to `to_seq` are gone from the log; `bytes` of output were in them."""

    from_seq: int
    to_seq: int
    bytes: int
    time: float = 0.0


Event: TypeAlias = Started | Output | Exited | Closed | Failed | Notice | Gap


def first_seq_of(event: Event) -> int:
    """Return the seq with which an event, or a gap, begins."""
    return event.from_seq if isinstance(event, Gap) else event.seq


def last_seq_of(event: Event) -> int:
    """Return the seq after which the next event follows."""
    return event.to_seq if isinstance(event, Gap) else event.seq
