"""Own what must hold before something is done with a process, and the errors where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from execzmq.errors import Conflict, InvalidState, NotATerminal, ProcessNotRunning
from execzmq.process.lifecycle import Life

if TYPE_CHECKING:
    from execzmq.process.managed import ManagedProcess


def require_running(process: ManagedProcess) -> None:
    """Raise ProcessNotRunning unless the command itself lives."""
    if process.life.has_exited or process.life is Life.STARTING:
        message = f"process {process.process_id} does not run; see its result"
        raise ProcessNotRunning(message, process_id=process.process_id)


def require_terminal(process: ManagedProcess) -> None:
    """Raise NotATerminal unless the process was started with one."""
    if not process.spec.tty:
        message = f"process {process.process_id} has no terminal; start it with one (tty=True, -t)"
        raise NotATerminal(message, process_id=process.process_id)


def require_keyboard(process: ManagedProcess, session: str) -> None:
    """Raise Conflict while another session has the keyboard."""
    if process.keyboard is not None and process.keyboard != session:
        message = f"another client has the keyboard of {process.process_id}; take it over first"
        raise Conflict(message, process_id=process.process_id, keyboard=process.keyboard)


def require_over(process: ManagedProcess) -> None:
    """Raise InvalidState unless the process is closed or failed."""
    if not process.life.is_over:
        message = f"process {process.process_id} is {process.life.public}; end it first"
        raise InvalidState(message, process_id=process.process_id, state=process.life.public)
