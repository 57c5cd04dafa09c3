"""Own what `map` answers for each command; decides, and asks nobody."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any

from execzmq.client.arguments import Command
from execzmq.client.run import CalledProcessError, CompletedProcess
from execzmq.errors import (
    Conflict,
    ExecZMQError,
    InvalidRequest,
    InvalidState,
    LimitExceeded,
    PermissionRefused,
    SandboxUnavailable,
    SpawnFailed,
    StatusUnknown,
)
from execzmq.types.results import ExitResult

_REFUSED = (
    Conflict,
    InvalidRequest,
    InvalidState,
    LimitExceeded,
    PermissionRefused,
    SandboxUnavailable,
    SpawnFailed,
)
"""What a host says of a command that it does not start; of all else it is not known whether it did."""


@dataclass(slots=True, frozen=True)
class MapResult:
    """What became of one command of a `map`.

    Args:
        args: the command as it was given.
        host: where it ran; empty where it had no place.
        result: how it ended; `server_lost` where that is not known, `failed` where it was not started.
        stdout: what it wrote, bytes or with `text` a str, as far as it was captured and is known.
        stderr: the same.
        error: why the result is not the command's own, or with `check` that it is a failure; else `None`.
    """

    args: Command
    host: str
    result: ExitResult
    stdout: Any = None
    stderr: Any = None
    error: Exception | None = None

    @property
    def returncode(self) -> int | None:
        """Return the code as `subprocess` folds it, `None` where it is not known."""
        return self.result.returncode


def completed(host: str, done: CompletedProcess) -> MapResult:
    """Return the result of a command that has ended."""
    return MapResult(done.args, host, done.result, done.stdout, done.stderr)


def failed(args: Command, host: str, error: Exception) -> MapResult:
    """Return the result of a command whose `run` has raised."""
    if isinstance(error, subprocess.TimeoutExpired):
        result = ExitResult(cause="timed_out", signal=9)
        return MapResult(args, host, result, error.stdout, error.stderr, error)
    if isinstance(error, CalledProcessError):
        return MapResult(args, host, error.result, error.stdout, error.stderr, error)
    if isinstance(error, StatusUnknown):
        return MapResult(args, host, ExitResult(cause=error.details.get("cause", "server_lost")), error=error)
    was_not_started = not host or isinstance(error, _REFUSED)
    return MapResult(
        args, host, ExitResult(cause="failed" if was_not_started else "server_lost"), error=error
    )


def is_of_one(error: Exception) -> bool:
    """Tell whether an error is that of one command, so that the others go on."""
    return isinstance(error, ExecZMQError | subprocess.TimeoutExpired | CalledProcessError)
