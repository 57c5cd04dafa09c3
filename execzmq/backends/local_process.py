"""Own what a client session does with one process of the local backend (`ExecProcess`)."""

from __future__ import annotations

import asyncio
import signal
import termios
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal

from execzmq.backends.measuring import measured
from execzmq.errors import InstanceChanged, InvalidRequest, ProcessNotFound, ProcessNotRunning, StdinClosed
from execzmq.process import guards, payloads, tree
from execzmq.process.backlog import RELEASED
from execzmq.process.managed import ManagedProcess
from execzmq.process.reading import page_of
from execzmq.settings import LONG_POLL, PAGE
from execzmq.types.events import Event
from execzmq.types.results import Cause, ExitResult, ProcessInfo, ReadResponse, Screen, TerminateReport

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend


class LocalProcess:
    """A session's handle of a process; see ExecProcess for each method."""

    def __init__(
        self, backend: LocalBackend, process: ManagedProcess, session: str, *, is_repeat: bool = False
    ) -> None:
        self.is_repeat = is_repeat
        self._backend = backend
        self._process = process
        self._session = session

    @property
    def process_id(self) -> str:
        """Name the process."""
        return self._process.process_id

    @property
    def instance(self) -> int:
        """Name the life of the process_id that this handle speaks of."""
        return self._process.instance

    @property
    def is_starter(self) -> bool:
        """Tell whether this session has started the process."""
        return self._process.spec.starter == self._session

    async def subscribe_events(self, after_seq: int = 0) -> AsyncIterator[Event]:
        """Yield every event after `after_seq` once and in order; see ExecProcess."""
        try:
            while True:
                response = await self.read(after_seq, None, LONG_POLL)
                for event in response.chunks:
                    yield event
                after_seq = response.next_seq
                if self._process.life.is_over and after_seq >= self._process.log.last_seq:
                    return
        finally:
            self._tell(RELEASED)

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        """Return one page of the log; see ExecProcess."""
        self._tell(after_seq)
        self._process.was_read(after_seq)
        await self.wait_news(after_seq, min(wait, LONG_POLL))
        process, log = self._process, self._process.log
        page = page_of(process, after_seq, PAGE if max_bytes is None else min(max_bytes, PAGE))
        result = process.result
        return ReadResponse(
            process_id=self.process_id,
            instance=self.instance,
            chunks=tuple(payloads.events_of(page)),
            next_seq=page.next_seq,
            first_seq=log.first_seq,
            last_seq=log.last_seq,
            exited=process.life.has_exited,
            closed=process.life.is_over,
            exit_code=result.exit_code if result else None,
            signal=result.signal if result else None,
            failure=process.failure,
            dropped_bytes=dict(log.dropped),
        )

    async def wait_news(self, after_seq: int, wait: float) -> None:
        """Wait until there is an event after `after_seq` or none can come, at most `wait` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while self.require().log.last_seq <= after_seq and not self._process.life.is_over:
            left = deadline - loop.time()
            if left <= 0:
                return
            await self._process.wait_change(left)

    async def write(self, data: bytes, end: bool = False) -> int:
        """Append to stdin; see ExecProcess."""
        await self.write_at(None, data, end)
        return len(data)

    async def write_at(self, offset: int | None, data: bytes | memoryview, end: bool) -> int:
        """Append to stdin at `offset` of what this session has written; return its accepted offset.

        Where there is room that is done without waiting. `None` as offset is the end of what it has written.
        """
        process = self.require()
        await self._backend.wait_started(process)
        guards.require_keyboard(process, self._session)
        feeder = process.feeder
        if feeder is None or process.life.has_exited:
            raise StdinClosed(_no_stdin(process), process_id=self.process_id)
        accepted = feeder.write(self._session, offset, data, end)
        return accepted if isinstance(accepted, int) else await accepted

    async def signal(self, signal: str | int) -> None:
        """Send a signal; see ExecProcess."""
        process = self.require()
        signo = signal_number(signal)
        await self._backend.wait_started(process)
        guards.require_running(process)
        process.signalled(signo, f"client {self._session}")
        try:
            self._send_signal(process, signo)
        except ProcessLookupError:
            message = f"process {self.process_id} has ended; see its result"
            raise ProcessNotRunning(message, process_id=self.process_id) from None

    def _send_signal(self, process: ManagedProcess, signo: int) -> None:
        if process.spec.tty and signo == signal.SIGINT and process.streams.is_open:
            tree.signal_foreground(process.streams.terminal, signo)
        else:
            tree.signal_group(*process.leader, signo)

    async def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size; see ExecProcess."""
        process = self.require()
        guards.require_terminal(process)
        await self._backend.wait_started(process)
        guards.require_running(process)
        guards.require_keyboard(process, self._session)
        if not (0 < rows <= 65535 and 0 < cols <= 65535):
            raise InvalidRequest(f"a terminal of {rows} rows and {cols} columns; each must be 1 to 65535")
        if not process.streams.is_open:
            raise ProcessNotRunning(
                f"the terminal of {self.process_id} is closed", process_id=self.process_id
            )
        if termios.tcgetwinsize(process.streams.terminal) != (rows, cols):
            termios.tcsetwinsize(process.streams.terminal, (rows, cols))
            process.notice(payloads.RESIZED, {"rows": rows, "cols": cols})

    async def screen(self) -> Screen:
        """Return what the terminal shows; see ExecProcess."""
        process = self.require()
        guards.require_terminal(process)
        await self._backend.wait_started(process)
        screen = await self._backend.screens.now(process)
        self.require()
        return screen

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        """End the whole tree; see ExecProcess."""
        self.require()
        return await self.end("terminated", f"client {self._session}", grace)

    async def end(self, cause: Cause, asked_by: str, grace: float) -> TerminateReport:
        """End the whole tree and note why and for whom; that of a forgotten process too."""
        process = self._process
        await self._backend.wait_started(process)
        if not process.has_begun:
            return TerminateReport()
        process.stop_requested(cause, asked_by)
        return await tree.terminate(process.scope, self._backend.scanner, grace)

    async def claim_keyboard(self, take_over: bool = False) -> None:
        """Be the only session that types; see ExecProcess."""
        process = self.require()
        guards.require_terminal(process)
        guards.require_running(process)
        if not take_over:
            guards.require_keyboard(process, self._session)
        process.keyboard = self._session

    async def release_keyboard(self) -> None:
        """Let others type; see ExecProcess."""
        process = self.require()
        if process.keyboard == self._session:
            process.keyboard = None

    async def wait(self, until: Literal["exited", "closed"], seconds: float) -> ProcessInfo:
        """Wait for the end; see ExecProcess."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(seconds, LONG_POLL)
        while True:
            life = self.require().life
            left = deadline - loop.time()
            if life.is_over or (until == "exited" and life.has_exited) or left <= 0:
                return self._process.info()
            await self._process.wait_change(left)

    async def ended(self, until: Literal["exited", "closed"], seconds: float) -> ExitResult | None:
        """Wait for the end and return its result; see ExecProcess."""
        return (await self.wait(until, seconds)).ending(until)

    async def info(self, usage: bool = False) -> ProcessInfo:
        """Describe the process; see ExecProcess."""
        process = self.require()
        return await measured(self._backend, process) if usage else process.info()

    async def forget(self) -> None:
        """Remove the ended process; see ExecProcess."""
        self._backend.forget(self.require())

    def require(self) -> ManagedProcess:
        """Return the process unless it has been forgotten.

        Raises:
            ProcessNotFound: it was. InstanceChanged: another life has taken its id.
        """
        if not self._process.is_forgotten:
            return self._process
        now = self._backend.table.get(self.process_id)
        if now is not None:
            message = f"process {self.process_id} was forgotten and another has its id"
            raise InstanceChanged(message, process_id=self.process_id, instance=now.instance)
        raise ProcessNotFound(f"process {self.process_id} was forgotten", process_id=self.process_id)

    def _tell(self, seq: int) -> None:
        if self.is_starter:
            self._process.streams.told(seq)


def signal_number(name: str | int) -> int:
    """Return the number of a signal.

    Raises:
        InvalidRequest: there is no such signal.
    """
    try:
        if isinstance(name, int):
            return (
                signal.Signals(name).value
                if name not in range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
                else name
            )
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except (KeyError, ValueError):
        raise InvalidRequest(f"there is no signal {name!r}; use a name such as INT or a number") from None


def _no_stdin(process: ManagedProcess) -> str:
    if process.life.has_exited:
        return f"process {process.process_id} has ended"
    return f"process {process.process_id} has no stdin; start it with one (stdin=True, -i)"
