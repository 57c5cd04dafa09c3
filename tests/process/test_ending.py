"""What becomes of the facts of an end."""

import pytest

from execzmq.process.ending import Ending
from execzmq.types.results import Cause

NOTHING = {"stdout": 0, "stderr": 0}


@pytest.mark.parametrize(
    ("status", "exit_code", "signal", "cause"),
    [
        (0, 0, None, "exited"),
        (124 << 8, 124, None, "exited"),
        (255 << 8, 255, None, "exited"),
        (9, None, 9, "signaled"),
        (11 | 128, None, 11, "signaled"),
        (None, None, None, "server_lost"),
    ],
)
def test_status(status: int | None, exit_code: int | None, signal: int | None, cause: Cause) -> None:
    """A wait status is an exit code or a signal, and nothing where nobody knows it."""
    ending = Ending(status=status)
    result = ending.result(NOTHING, NOTHING)
    assert (result.exit_code, result.signal, result.cause) == (exit_code, signal, cause)


def test_first_who_asks_is_named() -> None:
    """Of several reasons to end a process the first one counts."""
    ending = Ending(status=15)
    ending.ask("timed_out", "time limit")
    ending.ask("terminated", "client a")
    result = ending.result(NOTHING, NOTHING)
    assert (result.cause, result.asked_by, result.returncode) == ("timed_out", "time limit", -15)


def test_sender_of_the_signal_is_named() -> None:
    """Who sent the signal that the command died of is named, and nobody for another one."""
    ending = Ending(status=15)
    ending.signals[15] = "client a"
    assert ending.result(NOTHING, NOTHING).asked_by == "client a"
    ending.status = 9
    assert ending.result(NOTHING, NOTHING).asked_by == ""


def test_counts_are_copies() -> None:
    """A result does not change with the log that it was made from."""
    ends = {"stdout": 3, "stderr": 0}
    result = Ending(status=0).result(ends, NOTHING)
    ends["stdout"] = 9
    assert result.output_bytes["stdout"] == 3


@pytest.mark.parametrize("status", [0, 7 << 8, 9, None])
@pytest.mark.parametrize("cause", [None, "terminated", "timed_out"])
def test_resume(status: int | None, cause: Cause | None) -> None:
    """What an earlier life has told is told again the same."""
    ending = Ending(started_at=1.0, ended_at=2.0, status=status, rusage={"user": 0.5})
    ending.signals[9] = "client a"
    if cause is not None:
        ending.ask(cause, "somebody")
    told = ending.result(NOTHING, NOTHING)
    again = Ending()
    again.resume(told)
    assert again.result(NOTHING, NOTHING) == told
