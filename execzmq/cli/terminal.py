"""Own our terminal while it is lent to a command: its modes, its size, and that it is given back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import termios
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

from execzmq.cli.foreground import beside
from execzmq.errors import ExecZMQError
from execzmq.modes import ScreenModes
from execzmq.types.backend import ExecProcess
from execzmq.types.params import TtySize

_STOPPED_SECONDS = 0.5
"""Seconds after which a terminal that takes no output counts as stopped."""


class Terminal:
    """A terminal in raw mode from `__enter__` to `__exit__`, whatever happens in between.

    Args:
        fd: where keys are read from.
        on_change: called when its size may have changed, also after this program has been stopped.
    """

    def __init__(self, fd: int, on_change: Callable[[], None]) -> None:
        self.modes = ScreenModes()
        self._fd = fd
        self._on_change = on_change
        self._saved: list[Any] = []

    def __enter__(self) -> Terminal:
        self._saved = termios.tcgetattr(self._fd)
        self._make_raw()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._on_change)
        loop.add_signal_handler(signal.SIGCONT, self._continue)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            loop = asyncio.get_running_loop()
            for signo in (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP):
                loop.remove_signal_handler(signo)
        finally:
            self._give_back()

    def _make_raw(self) -> None:
        # In the background this stops us, as it should, until we are in the foreground.
        termios.tcsetattr(self._fd, termios.TCSANOW, raw_modes(self._saved))

    def _give_back(self) -> None:
        undo = self.modes.undo()
        if undo and _takes_output(self._fd):
            with contextlib.suppress(OSError):
                os.write(self._fd, undo)
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # clearing up must not stop us
        try:
            with contextlib.suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)
        finally:
            signal.signal(signal.SIGTTOU, before)

    def _suspend(self) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continue(self) -> None:
        with contextlib.suppress(termios.error):
            self._make_raw()
        self._on_change()


def raw_modes(modes: list[Any]) -> list[Any]:
    """Return terminal modes in which every key arrives as it is and output passes unchanged."""
    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = modes
    iflag &= ~(termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP)
    iflag &= ~(termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
    oflag &= ~termios.OPOST
    cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    cc = list(cc)
    cc[termios.VMIN], cc[termios.VTIME] = 1, 0
    return [iflag, oflag, cflag, lflag, ispeed, ospeed, cc]


def size_of(*fds: int) -> TtySize:
    """Return the size of the first of these that is a terminal with one, else 24 rows of 80."""
    for fd in fds:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.lines > 0 and size.columns > 0:
                return TtySize(size.lines, size.columns)
    return TtySize()


def _takes_output(fd: int) -> bool:
    """Tell whether a terminal takes output; one that has been stopped must not hold up our end."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(_STOPPED_SECONDS * 1000))


@contextlib.asynccontextmanager
async def passing_size(process: ExecProcess) -> AsyncIterator[None]:
    """Give a process's terminal our size meanwhile whenever that changes."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        async with beside(_pass_size(process, changed)):
            yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _pass_size(process: ExecProcess, changed: asyncio.Event) -> None:
    while True:
        await changed.wait()
        changed.clear()
        size = size_of(0, 1, 2)
        with contextlib.suppress(ExecZMQError):  # it has ended, or another has the keyboard
            await process.resize(size.rows, size.cols)
