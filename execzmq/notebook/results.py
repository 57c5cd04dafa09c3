"""Own what `y = %execz …` gives: the command that was run, its status and its output as text."""

from __future__ import annotations

from collections.abc import Callable

from execzmq.client.sync import Process
from execzmq.types.events import Gap, Stream
from execzmq.types.results import ExitResult


class CommandResult:
    """A command that was run; its output is read from the server's log when it is asked for.

    Args:
        process: what runs, or ran.
        result: how it ended; `None` = that is awaited when it is asked for.
    """

    def __init__(self, process: Process, result: ExitResult | None = None) -> None:
        self.process = process
        self._result = result

    @property
    def result(self) -> ExitResult:
        """How the command ended; waits for that."""
        if self._result is None:
            self._result = self.process.wait()
        return self._result

    @property
    def returncode(self) -> int | None:
        """The exit status as `subprocess` has it: negative for a signal, `None` where it is not known."""
        return self.result.returncode

    @property
    def stdout(self) -> str:
        """All of its stdout as text, UTF-8 with replacement; waits until the streams have ended.

        Raises:
            ProcessNotFound: the server has forgotten it meanwhile.
        """
        return read_text(self.process, "stdout")

    @property
    def stderr(self) -> str:
        """The same of its stderr."""
        return read_text(self.process, "stderr")

    def __repr__(self) -> str:
        status = "in the background" if self._result is None else self._result
        return f"<CommandResult {self.process.process_id}: {status}>"


class ShownResult(CommandResult):
    """One of a page, where the cell that ran the command shows the output and nothing besides.

    In a terminal IPython has written `Out[1]:` by the time that it asks for what comes there.

    Args:
        is_there: tells whether the cell that runs now is the one that ran the command.
    """

    def __init__(
        self, process: Process, result: ExitResult | None = None, *, is_there: Callable[[], bool]
    ) -> None:
        super().__init__(process, result)
        self._is_there = is_there

    def _ipython_display_(self) -> None:
        """Show nothing in that cell; any other shows it as it does what has no display of its own."""
        if not self._is_there():
            raise NotImplementedError


def read_text(process: Process, stream: Stream) -> str:
    """Return what a process has written to a stream, with a line where some of it is lost."""
    pieces = []
    for event in process.output():
        if isinstance(event, Gap):
            pieces.append(f"\n[... {event.bytes:,} bytes lost ...]\n".encode())
        elif event.stream == stream:
            pieces.append(event.data)
    return text_of(pieces)


def text_of(pieces: list[bytes]) -> str:
    """Return bytes as text: UTF-8, what is none is replaced."""
    return b"".join(pieces).decode(errors="replace")
