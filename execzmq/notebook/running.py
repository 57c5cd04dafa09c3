"""Own how one line is carried out: a command started or found, shown, waited for, its end made an answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from execzmq.client.sync import Client, Process
from execzmq.errors import ConnectionFailed, ExecZMQError, StatusUnknown
from execzmq.notebook.arguments import Line
from execzmq.notebook.asking import after_seq, start_options
from execzmq.notebook.clients import Clients
from execzmq.notebook.failing import CalledProcessError, CommandInterrupted, in_one_line
from execzmq.notebook.outlets import Outlet, say
from execzmq.notebook.results import CommandResult, ShownResult, text_of
from execzmq.notebook.screens import NoScreen, PageScreen, Screen, TerminalScreen
from execzmq.notebook.script import script_command
from execzmq.notebook.showing import Showing
from execzmq.notebook.views import CellView, Kind, view_of
from execzmq.notebook.waiting import Ender, Outcome, Waiting, is_ending
from execzmq.types.events import Stream
from execzmq.types.params import TtySize
from execzmq.types.results import ExitResult


class CellRun:
    """One use of the magic.

    Args:
        line: that was checked, with Python's values in it.
        body: the lines of the cell; `None` for a line.
        names: Python's variables.
    """

    def __init__(
        self, shell: InteractiveShell, clients: Clients, line: Line, body: str | None, names: dict[str, Any]
    ) -> None:
        self._shell = shell
        self._clients = clients
        self._line = line
        self._body = body
        self._names = names
        self._is_page = hasattr(shell, "kernel")
        self._to_be_ended: str | None = None  # id of a command that an interrupt finds nowhere else

    def carry_out(self) -> CommandResult:
        """Run or show what the line says, and return what the user gets.

        Raises:
            CalledProcessError: the command failed. CommandInterrupted: the kernel was interrupted.
            BadLine, ExecZMQError: nothing was started, or what became of it is not known.
        """
        try:
            client = self._clients.get(self._line.on)
            try:
                return self._carry_out(client)
            except CommandInterrupted:
                raise
            except KeyboardInterrupt:
                raise CommandInterrupted(self._end_unseen(client)) from None
        except ConnectionFailed as error:
            self._clients.drop(self._line.on)
            raise in_one_line(error) from None
        except ExecZMQError as error:
            raise in_one_line(error) from None

    def _carry_out(self, client: Client) -> CommandResult:
        process = client.attach(self._line.attach) if self._line.attach else self._start(client)
        if self._line.proc:
            self._shell.user_ns[self._line.proc] = process
        if self._line.tty and not self._is_page:
            return self._join(process)
        waiting = Waiting()
        showing = self._showing(process, waiting)
        if self._line.bg:
            self._to_be_ended = None
            showing.begin()
            if not self._is_page:
                say(f"{process.process_id} runs in the background; {self._attach(process)} comes to it")
            return self._given(process)
        with waiting:
            self._to_be_ended = None
            showing.begin()
            outcome = waiting.wait(self._interrupt_of(process, showing))
        self._keep_captured(showing)
        return self._answer(process, showing, outcome)

    def _start(self, client: Client) -> Process:
        client.connect()
        command, more = self._command()
        options = start_options(self._line, self._names, more)
        if self._line.cwd and client.aio.backend.is_local:
            options["cwd"] = os.path.expanduser(self._line.cwd)
        if self._line.tty and not self._is_page:
            options["size"] = _terminal_size()
        self._to_be_ended = options["process_id"] = client.portal.call(_new_process_id(client))
        return client.start(command, **options)

    def _command(self) -> tuple[str | list[str], dict[str, str]]:
        if self._body is None:
            return self._line.command, {}
        return script_command(self._body, f"In [{_number_of_cell(self._shell)}]")

    def _end_unseen(self, client: Client) -> str:
        """End a command that was being started, or just was, when the interrupt came; tell what was done."""
        if self._to_be_ended is None:
            return "the cell was interrupted"
        try:
            client.attach(self._to_be_ended).kill()
        except ExecZMQError as error:
            return f"the command was not started: {error}"
        return "the command was killed before it was waited for"

    def _showing(self, process: Process, waiting: Waiting) -> Showing:
        line = self._line
        streams: dict[Stream, str | None] = {"stdout": line.out, "stderr": line.err}
        return Showing(
            process,
            self._screen(process),
            self._view(process),
            waiting.tell,
            captured=tuple(stream for stream, variable in streams.items() if variable),
            is_view_due=bool(line.bg or line.tty or line.attach),
            after_seq=after_seq(line),
        )

    def _screen(self, process: Process) -> Screen:
        outlet = Outlet(process.process_id)
        if not self._is_page:
            return TerminalScreen(outlet)
        return NoScreen() if self._is_terminal(process) else PageScreen(outlet, self._how_to_read(process))

    def _view(self, process: Process) -> CellView | None:
        if not self._is_page:
            return None
        kind: Kind = "terminal" if self._is_terminal(process) else "view"
        begins_with = TtySize() if self._line.attach is None and kind == "terminal" else None
        return view_of(process, kind=kind, on=self._line.on, begins_with=begins_with)

    def _is_terminal(self, process: Process) -> bool:
        """Tell whether the page shows a terminal, which a process that is attached to may have too."""
        return self._line.tty or (self._line.attach is not None and process.info().tty)

    def _interrupt_of(self, process: Process, showing: Showing) -> Any:
        """Return what an interrupt does: what is only looked at is left alone, as with `--detach-…`."""
        if self._line.attach is not None:
            return showing.leave
        if self._line.detach_on_interrupt:
            return lambda: False
        ender = Ender(process, say)
        return lambda: not self._is_kernel_ending() and ender.interrupt()

    def _is_kernel_ending(self) -> bool:
        """Tell whether the kernel is being restarted or shut down: its commands run on."""
        return self._is_page and is_ending(lambda: bool(getattr(self._shell, "exit_now", False)))

    def _keep_captured(self, showing: Showing) -> None:
        variables: dict[Stream, str | None] = {"stdout": self._line.out, "stderr": self._line.err}
        for stream, pieces in showing.captured.items():
            self._shell.user_ns[variables[stream]] = text_of(list(pieces))

    def _answer(self, process: Process, showing: Showing, outcome: Outcome) -> CommandResult:
        if outcome == "left":
            raise CommandInterrupted(
                f"{process.process_id} runs on; {self._attach(process)} comes back to it"
            )
        if showing.error is not None:
            raise showing.error
        result = showing.result or process.wait()
        if outcome == "interrupted":
            raise CommandInterrupted(f"the command has ended: {result}")
        if outcome == "held":
            say("the command has ended; what it started still holds its output open, which goes on here")
        if not self._line.no_raise_error:
            self._check(process, result, showing)
        return self._given(process, result)

    def _check(self, process: Process, result: ExitResult, showing: Showing) -> None:
        if result.returncode is None:
            raise StatusUnknown(
                f"the command is over, but how it ended is not known: {result}", cause=result.cause
            )
        if result.returncode:
            output = {stream: text_of(pieces) for stream, pieces in showing.captured.items()}
            where = f"{self._how_to_read(process)} has its output"
            raise CalledProcessError(self._shown(), output.get("stdout"), output.get("stderr"), result, where)

    def _given(self, process: Process, result: ExitResult | None = None) -> CommandResult:
        if not self._is_page:
            return CommandResult(process, result)
        here = _number_of_cell(self._shell)
        return ShownResult(process, result, is_there=lambda: _number_of_cell(self._shell) == here)

    def _shown(self) -> str:
        """Return what the user knows the command by."""
        return self._line.attach or self._line.command or "the cell"

    def _join(self, process: Process) -> CommandResult:
        """Lend this terminal to the command, as the command line does; its detach keys leave it running."""
        self._to_be_ended = None
        on = [] if self._line.on is None else ["--on", self._line.on]
        subprocess.call([sys.executable, "-m", "execzmq", "attach", *on, process.process_id])
        info = process.info()
        if info.result is not None and info.result.returncode and not self._line.no_raise_error:
            where = f"{self._how_to_read(process)} has its output"
            raise CalledProcessError(self._shown(), None, None, info.result, where)
        return self._given(process, info.result)

    def _attach(self, process: Process) -> str:
        known_by = self._line.name or self._line.attach or process.process_id
        return f"`%execz{self._on()} --attach {known_by}`"

    def _how_to_read(self, process: Process) -> str:
        return f"`execzmq logs{self._on()} {process.process_id}`"

    def _on(self) -> str:
        return "" if self._line.on is None else f" --on {self._line.on}"


def _number_of_cell(shell: InteractiveShell) -> int:
    history = shell.history_manager
    if history is None:
        return shell.execution_count
    # `execution_count` is, by the version of IPython, this cell's number or already the next one's.
    return len(history.input_hist_parsed) - 1


async def _new_process_id(client: Client) -> str:
    return client.aio.backend.new_process_id()


def _terminal_size() -> tuple[int, int]:
    size = shutil.get_terminal_size()
    return size.lines, size.columns
