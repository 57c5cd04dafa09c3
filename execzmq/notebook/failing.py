"""Own the exceptions that a cell ends with: one line each in IPython, not the calls that led there."""

from __future__ import annotations

from typing import Any

from execzmq.client import run
from execzmq.errors import ExecZMQError
from execzmq.types.results import ExitResult


class CalledProcessError(run.CalledProcessError):
    """An `execzmq.CalledProcessError` that IPython shows in one line.

    Args:
        process_id: of the command.
        how_to_read: one line that tells where its output is.
    """

    def __init__(self, command: Any, output: Any, stderr: Any, result: ExitResult, how_to_read: str) -> None:
        assert result.returncode is not None
        super().__init__(result.returncode, command, output, stderr, result)
        self._how_to_read = how_to_read

    def _render_traceback_(self) -> list[str]:
        status = str(self.result)
        notes = (note for note in getattr(self, "__notes__", ()) if note != status)  # which is told already
        more = [note.removeprefix(f"{status}; ") for note in notes]
        return [f"CalledProcessError: {status}: {self.cmd}; {self._how_to_read}", *more]


class CommandInterrupted(KeyboardInterrupt):
    """A KeyboardInterrupt that IPython shows in one line: it says what became of the command."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def in_one_line(error: ExecZMQError) -> ExecZMQError:
    """Return the error, which IPython then shows in one line: no line of the user's led there."""
    if not hasattr(type(error), "_render_traceback_"):
        error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]  # IPython looks for it
    return error
