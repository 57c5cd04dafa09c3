"""Own what execzmq answers: results, pages and descriptions; know nothing of where they come from."""

from __future__ import annotations

import signal as _signal
from dataclasses import dataclass, field
from typing import Any, Literal

from execzmq.errors import InvalidRequest
from execzmq.types.events import Event
from execzmq.types.params import TtySize

Cause = Literal[
    "exited", "signaled", "timed_out", "terminated", "oom", "sandbox_denied", "failed", "server_lost"
]
State = Literal["starting", "running", "stopping", "exited", "closed", "failed"]


@dataclass(slots=True, frozen=True)
class ExitResult:
    """How a process ended.

    Exactly one of `exit_code` and `signal` is set; neither where the status is not known (`server_lost`) or
    nothing ran (`failed`). Times are Unix seconds, sizes bytes.

    Args:
        cause: why it ended; a program that itself exits 124 has cause `exited`, never `timed_out`.
        asked_by: who asked for the end (`client <session>`, `time limit`, `shutdown`, `lease`); else empty.
        rusage: `user` and `system` (seconds), `max_rss` (bytes); empty where it is not known.
        output_bytes: bytes written per stream; at `exited` those so far.
        dropped_bytes: bytes per stream that the log no longer has.
        held_open_by: (pid, command) of those that held the streams open when the wait for them was given up.
    """

    exit_code: int | None = None
    signal: int | None = None
    cause: Cause = "exited"
    asked_by: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    rusage: dict[str, float] = field(default_factory=dict)
    output_bytes: dict[str, int] = field(default_factory=dict)
    dropped_bytes: dict[str, int] = field(default_factory=dict)
    held_open_by: tuple[tuple[int, str], ...] = ()
    confidence: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def returncode(self) -> int | None:
        """Return the code as `subprocess` folds it: negative for a signal, `None` where it is not known."""
        return self.exit_code if self.signal is None else -self.signal

    def __str__(self) -> str:
        if self.signal is not None:
            status = f"signal {self.signal} ({signal_name(self.signal)})"
        elif self.exit_code is not None:
            status = f"exit code {self.exit_code}"
        else:
            status = "no exit status"
        asked = f", asked by {self.asked_by}" if self.asked_by else ""
        return status if self.cause in ("exited", "signaled") else f"{status} ({self.cause}{asked})"


def limits_met(result: ExitResult) -> list[str]:
    """Return the limits that a command met in a sandbox, such as `cpu=60`, as its evidence tells."""
    told = (line.split() for line in result.evidence)
    return [words[1] for words in told if len(words) > 1 and words[0] == "limit"]


def signal_name(number: int) -> str:
    """Return the name of a signal without its `SIG`, or the number where it has none."""
    try:
        return _signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def signal_number(name: str | int) -> int:
    """Return the number of a signal, given as such or by its name with or without `SIG`.

    Raises:
        InvalidRequest: there is no such signal.
    """
    try:
        if isinstance(name, str):
            return _signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
        is_real_time = _signal.SIGRTMIN <= name <= _signal.SIGRTMAX
        return name if is_real_time else _signal.Signals(name).value
    except (KeyError, ValueError):
        raise InvalidRequest(f"there is no signal {name!r}; use a name such as INT or a number") from None


@dataclass(slots=True, frozen=True)
class ReadResponse:
    """One page of a process's log.

    `chunks` are the events of this page, at least one unless the end is reached, a `Gap` among them where
    bytes are gone. The next page begins with `next_seq` as `after_seq`.
    """

    process_id: str
    instance: int
    chunks: tuple[Event, ...]
    next_seq: int
    first_seq: int
    last_seq: int
    exited: bool = False
    closed: bool = False
    exit_code: int | None = None
    signal: int | None = None
    failure: dict[str, Any] | None = None
    dropped_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class ProcessUsage:
    """What a command and all that it has started use at one moment.

    Args:
        cpu_seconds: processor time so far, user and system; from two of them comes a percentage. It never
            falls while one server lives; of who ended unwaited for between two readings a part is missing.
        memory_bytes: memory that they hold now. A sandbox with a control group for memory has exact numbers;
            else it is the sum of their resident memory, in which what several share counts for each.
        processes: how many of them live.
    """

    cpu_seconds: float
    memory_bytes: int
    processes: int


@dataclass(slots=True, frozen=True)
class ProcessInfo:
    """What is known of one process; `argv` and `cwd` are bytes of the machine where it runs.

    `tty_size` is that of the terminal, if there is one, at the start. `host` is that machine's name where a
    cluster was asked, else empty: it is that of the server. `usage` is `None` where it was not asked for,
    before the start, after `closed`, and where the server cannot tell.
    """

    process_id: str
    name: str | None
    instance: int
    argv: tuple[bytes, ...]
    cwd: bytes
    state: State
    pid: int | None
    started_at: float
    exited: bool
    closed: bool
    result: ExitResult | None
    last_seq: int
    output_bytes: dict[str, int] = field(default_factory=dict)
    tty: bool = False
    tty_size: TtySize | None = None
    keyboard: str | None = None
    failure: dict[str, Any] | None = None
    sandbox: dict[str, Any] | None = None
    host: str = ""
    usage: ProcessUsage | None = None

    def ending(self, until: Literal["exited", "closed"]) -> ExitResult | None:
        """Return how the command has ended, `None` where it, or with `closed` its streams, have not."""
        if self.state == "failed":
            return self.result or ExitResult(cause="failed")
        if self.closed or (self.exited and until == "exited"):
            return self.result or ExitResult(cause="server_lost")
        return None


@dataclass(slots=True, frozen=True)
class Screen:
    """What a terminal shows after the event `seq` of a life of its process.

    Args:
        instance: names that life.
        rows, cols: size of the screen, at most 200 and 500: of a larger terminal the upper left part.
        data: brings an empty terminal of this size to show the same, with the output after `seq` to follow:
            both screens, the cursor, colours, modes and title. It asks the terminal nothing.
        is_cut: something may be missing from it, as where bytes are gone from the log and the screen has not
            been cleared since.
    """

    instance: int
    seq: int
    rows: int
    cols: int
    data: bytes
    is_cut: bool = False


@dataclass(slots=True, frozen=True)
class ProfileInfo:
    """One permission profile that a server has.

    Args:
        name: what `sandbox` names.
        description: one line; may be empty.
        is_default: what a start without a profile gets; no client gets more.
        fields: what it allows, by the names that the file of profiles has; paths are bytes.
    """

    name: str
    description: str
    is_default: bool
    fields: dict[str, Any]


@dataclass(slots=True, frozen=True)
class ServerInfo:
    """What a server says of itself; `statistics` are counters since its start."""

    pid: int
    epoch: str
    version: str
    name: str
    host: str
    role: str
    started_at: float
    statistics: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class ProcessRef:
    """A process as a report names it."""

    pid: int
    command: str


@dataclass(slots=True, frozen=True)
class TerminateReport:
    """What became of a process tree that was to be ended.

    Args:
        signalled: processes that got a signal.
        ended: those of them that are gone.
        survivors: those that are still there.
        unattributed: processes that may belong to the tree but cannot be attributed; they got no signal.
    """

    signalled: tuple[ProcessRef, ...] = ()
    ended: tuple[ProcessRef, ...] = ()
    survivors: tuple[ProcessRef, ...] = ()
    unattributed: tuple[ProcessRef, ...] = ()
