"""Own the signals that this program gets while it stands for a command: they go to the command instead."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from execzmq.cli import say
from execzmq.errors import ExecZMQError, ProcessNotFound, ProcessNotRunning
from execzmq.types.backend import ExecProcess

if TYPE_CHECKING:
    from execzmq.client.interrupts import InterruptLadder

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TELLING = (signal.SIGUSR1, signal.SIGUSR2)

_Delivery: TypeAlias = Callable[[ExecProcess], Awaitable[object]]


class Relay:
    """Passes signals on to one process in their order; interrupts climb the ladder.

    While there is no process, those that end a program cancel the task that entered the relay.

    Attributes:
        fatal: number of the signal that cancelled it, `None` = none has.
    """

    def __init__(self) -> None:
        self.fatal: int | None = None
        self._ladder: InterruptLadder | None = None
        self._process: ExecProcess | None = None
        self._waiting: list[_Delivery] = []
        self._delivering: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[Any] | None = None

    def __enter__(self) -> Relay:
        self._owner = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for signo in (*_ENDING, *_TELLING):
            # What was ignored when we began, as by `nohup` or in a script's background, stays ignored.
            if signal.getsignal(signo) != signal.SIG_IGN:
                loop.add_signal_handler(signo, self._on_signal, signo)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for signo in (*_ENDING, *_TELLING):
            loop.remove_signal_handler(signo)
        if self._delivering is not None:
            self._delivering.cancel()

    def begin(self, process: ExecProcess) -> None:
        """Pass signals on to `process` from now on."""
        self._process = process

    def status(self, error: asyncio.CancelledError) -> int:
        """Return the exit status after a signal has cancelled the task; raise `error` where none has."""
        if self.fatal is None or self._owner is None:
            raise error
        self._owner.uncancel()
        return say.SIGNALLED + self.fatal

    def _on_signal(self, signo: signal.Signals) -> None:
        if self._process is None:
            if signo in _ENDING and self._owner is not None:
                self.fatal = signo
                self._owner.cancel()
        elif signo == signal.SIGINT:
            self._interrupt()
        else:
            self._deliver(lambda process: process.signal(int(signo)))

    def _interrupt(self) -> None:
        if self._ladder is None:
            from execzmq.client.interrupts import InterruptLadder

            self._ladder = InterruptLadder()
        step = self._ladder.next()
        say.line(step.words)
        if step.signal == "KILL":
            self._deliver(lambda process: process.terminate(0.0))
        else:
            self._deliver(lambda process: process.signal(step.signal))

    def _deliver(self, delivery: _Delivery) -> None:
        self._waiting.append(delivery)
        if self._delivering is None or self._delivering.done():
            self._delivering = asyncio.create_task(self._deliver_all())

    async def _deliver_all(self) -> None:
        while self._waiting and self._process is not None:
            delivery = self._waiting.pop(0)
            try:
                await delivery(self._process)
            except (ProcessNotRunning, ProcessNotFound):
                pass  # it has ended by itself
            except ExecZMQError as error:
                say.line(f"a signal was not delivered: {error}")
