"""Own what the command line says for itself, on stderr in single lines, and its exit statuses."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
from pathlib import Path

import click

from execzmq import errors
from execzmq.client.notices import words_of
from execzmq.types.events import Gap, Notice
from execzmq.types.results import ExitResult, limits_met

TIMED_OUT = 124
FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
INTERRUPTED = SIGNALLED + signal.SIGINT
BROKEN_PIPE = SIGNALLED + signal.SIGPIPE


def line(text: str) -> None:
    """Write one line of ours to stderr, whatever mode the terminal is in; drop it where that is closed.

    On a terminal that shows a program's screen it begins a new line: the cursor is wherever that left it.
    """
    words = " ".join(text.split())
    start, end = ("\r\n", "\r\n") if _is_raw() else ("", "\n")
    # Replaced as a whole: what others named must not move the cursor.
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    with contextlib.suppress(OSError):
        os.write(2, f"{start}execzmq: {printable}{end}".encode(errors="backslashreplace"))


def listing(text: str) -> None:
    """Write a line of a listing to stdout; what its encoding does not have is escaped.

    Raises:
        OSError: it cannot be written.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace"))


def gap(event: Gap) -> None:
    """Tell that output is missing here."""
    line(f"{event.bytes:,} bytes are no longer in the log here (events {event.from_seq} to {event.to_seq})")


def notice(process_id: str, event: Notice) -> None:
    """Tell what a process's server has told of it."""
    words = words_of(process_id, event, listing="--allow-host or its profile")
    if words is not None:
        line(words)


def failure(error: BaseException) -> int:
    """Tell of an error in one line and return the exit status for it."""
    if isinstance(error, BrokenPipeError) and not isinstance(error, errors.ExecZMQError):
        return broken_pipe()
    line(text_of(error))
    return status_of_error(error) if isinstance(error, errors.ExecZMQError) else FAILED


def text_of(error: BaseException) -> str:
    """Return what a person is told of an error, in one line."""
    if isinstance(error, errors.InstanceChanged):
        return f"{error}; `execzmq logs` shows what it has said since"
    if isinstance(error, errors.ExecZMQError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
    return f"internal error, please report it: {type(error).__name__}: {error} ({_place(error)})"


def broken_pipe() -> int:
    """End as other programs do whose reader has gone: quietly, by SIGPIPE."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    return BROKEN_PIPE


def status_of_error(error: errors.ExecZMQError) -> int:
    """Return the exit status for an error, as shells and docker have it."""
    if isinstance(error, errors.CommandNotFound):
        return NOT_FOUND
    if isinstance(error, errors.NotExecutable | errors.BadFormat | errors.ArgumentTooLong):
        return NOT_EXECUTABLE
    return FAILED


def status_of_result(result: ExitResult) -> int:
    """Return the exit status that passes on how a command ended."""
    if result.cause == "timed_out":
        return TIMED_OUT
    if result.signal is not None:
        return SIGNALLED + result.signal
    return FAILED if result.exit_code is None else result.exit_code


def end(process_id: str, result: ExitResult) -> int:
    """Tell what the exit status alone does not say of a command's end, and return the status."""
    if result.cause == "timed_out":
        line(f"{process_id} was ended at its time limit")
    elif result.cause == "server_lost":
        cure = f"it may run on; `execzmq kill {process_id}` ends it"
        line(f"how {process_id} ended is not known ({result.cause}): {cure}")
    elif result.returncode is None:
        line(f"{process_id} is over, but how it ended is not known ({result.cause}); see `execzmq doctor`")
    elif result.cause == "sandbox_denied":
        seen = f": {result.evidence[0]}" if result.evidence else ""
        line(f"{process_id} was denied something by its sandbox{seen}; --explain tells what is allowed")
    elif result.cause not in ("exited", "signaled"):
        line(f"{process_id} ended: {result}")
    if result.returncode and (met := limits_met(result)):
        line(f"{process_id} met its limit of {' and '.join(met)}; --limit sets it, or its profile does")
    if result.held_open_by:
        holders = ", ".join(f"{pid} ({command})" for pid, command in result.held_open_by)
        line(f"its output is still held open by {holders}; what they say is dropped")
    return status_of_result(result)


def detached(process_id: str) -> int:
    """Tell how to come back to a process that the user has left, and return the exit status for that."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")  # the cursor is where the program has left it
    line(f"detached from {process_id}; `execzmq attach {process_id}` comes back")
    return 0


def _is_raw() -> bool:
    try:
        return not termios.tcgetattr(2)[1] & termios.OPOST
    except (termios.error, OSError):
        return False


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return f"Python {sys.version.split()[0]}"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
