"""Own how a cell waits for its command, and what interrupts of the kernel do meanwhile.

Signals that come while the main thread waits here raise nothing: they are taken as they come, so that none of
them can fall between two steps. A command that has ended without its streams holds no cell up.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Literal, Self

from execzmq.client.interrupts import InterruptLadder
from execzmq.client.sync import Process
from execzmq.errors import ExecZMQError, ProcessNotFound, ProcessNotRunning
from execzmq.notebook.showing import News

DRAIN = 1.0
"""Seconds after a command's exit for which the end of its streams is awaited."""
ENDING = 0.15
"""Seconds from the interrupt of a kernel that is being restarted or shut down to the ask that it end."""
_STEPS = 3
"""Interrupts that do something to a command; one more no longer waits for it."""

Outcome = Literal["over", "held", "interrupted", "left"]
"""All has ended; the command has, its output has not; it was interrupted and has ended; it runs on."""


class Waiting:
    """What one cell waits for: news of its command, and interrupts. A context manager around the waiting."""

    def __init__(self) -> None:
        self._news: queue.SimpleQueue[News | Literal["interrupt"]] = queue.SimpleQueue()
        self._before: signal.Handlers | Callable[[int, FrameType | None], object] | int | None = None

    def tell(self, news: News) -> None:
        """Pass on what has become of the command; from any thread."""
        self._news.put(news)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is not None:  # else it is not Python's
                signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def wait(self, interrupt: Callable[[], bool]) -> Outcome:
        """Wait for the end of the command.

        Args:
            interrupt: called for each interrupt; false = wait no longer.
        """
        was_interrupted, until = False, None
        while True:
            try:
                news = self._news.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                return "interrupted" if was_interrupted else "held"
            if news == "exited":
                until = time.monotonic() + DRAIN
            elif news == "over":
                return "interrupted" if was_interrupted or self._has_interrupt() else "over"
            else:
                was_interrupted = True
                if not interrupt():
                    return "left"

    def _has_interrupt(self) -> bool:
        """Tell whether an interrupt came with the end, too late for the command."""
        return not self._news.empty()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A SimpleQueue can be put into by a signal handler that interrupts one of its own calls.
        self._news.put("interrupt")


def is_ending(kernel_has_ended: Callable[[], bool]) -> bool:
    """Tell whether an interrupt is but the first step of the kernel's own end.

    Front ends interrupt a kernel before they ask it to end. That ask comes by another thread and is awaited
    for a moment.
    """
    until = time.monotonic() + ENDING
    while not kernel_has_ended():
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


class Ender:
    """Carries out what repeated interrupts do to a command.

    Args:
        say: tells the user, in one line.
    """

    def __init__(self, process: Process, say: Callable[[str], None]) -> None:
        self._process = process
        self._say = say
        self._ladder = InterruptLadder()
        self._count = 0

    def interrupt(self) -> bool:
        """Do what the next interrupt does; false where nothing is left to do but to wait no longer."""
        self._count += 1
        if self._count > _STEPS:
            return False
        step = self._ladder.next()
        self._say(step.words)
        # On a thread: a server that does not answer must not keep the next interrupt from being heard.
        threading.Thread(target=self._send, args=(step.signal,), name="execzmq-signal", daemon=True).start()
        return True

    def _send(self, name: str) -> None:
        try:
            if name == "KILL":
                self._process.kill()
            else:
                self._process.signal(name)
        except (ProcessNotRunning, ProcessNotFound):
            pass  # it has ended by itself
        except ExecZMQError as error:
            self._say(f"the signal was not delivered: {error}")
