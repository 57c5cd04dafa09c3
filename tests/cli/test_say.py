"""What is said on stderr, and exit statuses."""

from typing import Any

import pytest

from execzmq import errors
from execzmq.cli import say
from execzmq.types.events import Notice
from execzmq.types.results import ExitResult


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (ExitResult(exit_code=0), 0),
        (ExitResult(exit_code=124), 124),
        (ExitResult(signal=9, cause="signaled"), 137),
        (ExitResult(signal=15, cause="timed_out"), 124),
        (ExitResult(exit_code=3, cause="timed_out"), 124),
        (ExitResult(signal=15, cause="terminated"), 143),
        (ExitResult(cause="server_lost"), 125),
    ],
)
def test_status_of_result(result: ExitResult, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The exit status passes on how a command ended; what it cannot tell is said."""
    assert say.end("p", result) == status
    said = capfd.readouterr().err
    assert (said == "") is (result.cause in ("exited", "signaled"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"exit_code": 2, "evidence": ("limit processes=3 (limits)",)},
            "met its limit of processes=3",
        ),
        ({"signal": 25, "cause": "signaled", "evidence": ("limit file_size=9 (status)",)}, "file_size=9"),
        ({"exit_code": 0, "evidence": ("limit processes=3 (limits)",)}, ""),
        ({"exit_code": 2, "evidence": ("not_permitted unknown (stderr)",)}, ""),
    ],
)
def test_limit_that_was_met(changes: dict[str, Any], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A failure says which; a success says nothing."""
    say.end("p", ExitResult(**changes))
    told = capfd.readouterr().err
    assert said in told
    assert bool(told) is bool(said)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.CommandNotFound("x"), 127),
        (errors.NotExecutable("x"), 126),
        (errors.BadFormat("x"), 126),
        (errors.ArgumentTooLong("x"), 126),
        (errors.WorkingDirectoryMissing("x"), 125),
        (errors.ServerLost("x"), 125),
        (FileNotFoundError(2, "No such file", "f"), 125),
        (ZeroDivisionError("bug"), 125),
    ],
)
def test_status_of_error(error: Exception, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Every error is one line and a status."""
    assert say.failure(error) == status
    said = capfd.readouterr().err
    assert said.startswith("execzmq: ")
    assert said.count("\n") == 1


def test_line_moves_no_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    """What others named cannot forge lines or colours of ours."""
    say.line("a\nb \x1b[31m \ud800")
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_limits_that_were_met_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    """What the status alone does not say of a limit is told; weak evidence of a denial is not."""
    evidence = ("no_network none (stderr: limit x)", "limit cpu=1 (status)", "limit processes=5 (limits)")
    assert say.end("p", ExitResult(signal=24, cause="signaled", evidence=evidence)) == 152
    assert capfd.readouterr().err == (
        "execzmq: p met its limit of cpu=1 and processes=5; --limit sets it, or its profile does\n"
    )


def test_holders_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Who holds the output open after the end is named."""
    assert say.end("p", ExitResult(exit_code=0, held_open_by=((12, "sleep 100"),))) == 0
    assert "12 (sleep 100)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Notice(3, "degraded", {"text": "[Errno 28] No room"}), "output is held in memory (No room)"),
        (Notice(4, "recovered", {"dropped_bytes": 4096}), "takes output again; 4,096 bytes were lost"),
        (Notice(4, "recovered", {"dropped_bytes": 0}), "takes output again\n"),
        (Notice(5, "later", {"what": 1}), "p: later"),
    ],
)
def test_notice_is_a_line(event: Notice, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What a server tells of a process is one line, also where it is of a kind that is not known yet."""
    say.notice("p", event)
    said = capfd.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_an_unknown_end_names_what_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    """A command that was lost may run on, and the line says how that is ended."""
    say.end("p", ExitResult(cause="server_lost"))
    assert "`execzmq kill p` ends it" in capfd.readouterr().err


def test_a_new_life_names_what_shows_it(capfd: pytest.CaptureFixture[str]) -> None:
    """Whose cursor is of no use any more is told to begin anew."""
    say.failure(errors.InstanceChanged("the process has begun a new life"))
    assert "`execzmq logs`" in capfd.readouterr().err
