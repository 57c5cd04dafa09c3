"""What `map` answers for a command whose `run` has raised."""

import subprocess

import pytest

from execzmq.client.run import CompletedProcess
from execzmq.cluster.results import completed, failed, is_of_one
from execzmq.errors import (
    CommandNotFound,
    Conflict,
    ConnectionFailed,
    ProcessNotFound,
    RequestTimeout,
    ServerLost,
    StatusUnknown,
)
from execzmq.types.results import ExitResult


def test_a_command_that_has_ended() -> None:
    """Its result, its streams and its host."""
    done = CompletedProcess(["x"], ExitResult(exit_code=3), b"out", b"err", {})
    result = completed("one", done)
    assert (result.args, result.host, result.returncode) == (["x"], "one", 3)
    assert (result.stdout, result.stderr, result.error) == (b"out", b"err", None)


@pytest.mark.parametrize(
    ("error", "host", "cause"),
    [
        (ServerLost("gone"), "one", "server_lost"),
        (ConnectionFailed("nobody answers"), "one", "server_lost"),
        (ConnectionFailed("no place"), "", "failed"),
        (CommandNotFound("no such program"), "one", "failed"),
        (Conflict("taken"), "one", "failed"),
        (RequestTimeout("no answer"), "one", "server_lost"),
        (ProcessNotFound("forgotten"), "one", "server_lost"),
        (StatusUnknown("who knows", cause="server_lost"), "one", "server_lost"),
        (StatusUnknown("who knows"), "one", "server_lost"),
    ],
)
def test_a_command_of_which_nothing_is_known(error: Exception, host: str, cause: str) -> None:
    """It is lost where it may have run, failed where it cannot have."""
    result = failed("x", host, error)
    assert (result.result.cause, result.returncode, result.error) == (cause, None, error)
    assert is_of_one(error)


def test_a_command_out_of_time_has_said_something() -> None:
    """What it wrote before is kept, and that it was killed is told."""
    error = subprocess.TimeoutExpired("x", 1.0, b"out", b"err")
    result = failed("x", "one", error)
    assert (result.result.cause, result.returncode) == ("timed_out", -9)
    assert (result.stdout, result.stderr) == (b"out", b"err")
    assert is_of_one(error)


def test_a_fault_of_the_caller_is_no_result() -> None:
    """Such as a sink that cannot be written to: it ends the whole."""
    assert not is_of_one(OSError("no space left"))
