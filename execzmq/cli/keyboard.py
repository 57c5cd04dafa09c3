"""Own what our keys do to a shared terminal: who may type, how that passes on, and which keys detach."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from execzmq.errors import (
    Conflict,
    ExecZMQError,
    NotATerminal,
    PermissionRefused,
    ProcessNotRunning,
    StdinClosed,
)
from execzmq.types.backend import ExecProcess
from execzmq.types.params import TtySize

_CTRL_C = b"\x03"


class DetachKeys:
    """Finds one sequence of keys in what is typed; pure.

    Args:
        sequence: the keys as bytes; empty = nothing detaches.
    """

    def __init__(self, sequence: bytes) -> None:
        self._sequence = sequence
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be passed on and whether the sequence is complete; what may begin it is held."""
        if not self._sequence:
            return data, False
        data, self._held = self._held + data, b""
        found = data.find(self._sequence)
        if found >= 0:
            return data[:found], True
        held = next(n for n in range(len(self._sequence) - 1, -1, -1) if data.endswith(self._sequence[:n]))
        self._held = data[len(data) - held :]
        return data[: len(data) - held], False


class Keyboard:
    """This client's share in the keyboard of a process's terminal.

    Args:
        process: whose.
        size: returns the size of our terminal; it applies while we hold the keyboard.
        tell: takes one line for the user.
        watch: never type.
    """

    def __init__(
        self, process: ExecProcess, size: Callable[[], TtySize], tell: Callable[[str], None], *, watch: bool
    ) -> None:
        self.is_held = False
        self._process = process
        self._size = size
        self._tell = tell
        self._watch = watch
        self._refused = False
        self._has_asked = False

    async def claim(self, *, take_over: bool = False) -> bool:
        """Take the keyboard if it is free; tell who to ask where it is not.

        Raises:
            ExecZMQError: other than that it is taken.
        """
        if self._watch:
            return False
        self._has_asked = True
        try:
            await self._process.claim_keyboard(take_over)
        except Conflict:
            back = f"`execzmq attach --take-over {self._process.process_id}` takes it"
            self._lose(f"watching only: another client has the keyboard; {back}")
            return False
        except PermissionRefused:
            self._watch, self._has_asked = True, False
            self._tell("watching only: this connection file is for no more; Ctrl-C leaves")
            return False
        except ProcessNotRunning:
            return False
        self._refused = False
        self.is_held = True
        await self.fit()
        return True

    async def type(self, data: bytes) -> bool:
        """Type if we hold the keyboard, or it is free now; return whether the user wants to leave instead."""
        if self._watch:
            return _CTRL_C in data
        if not self.is_held and not await self.claim():
            return False
        try:
            await self._process.write(data)
        except Conflict:
            self._lose("another client has taken the keyboard over; watching only")
        except (StdinClosed, ProcessNotRunning):
            pass  # its last words are on their way
        return False

    async def fit(self) -> None:
        """Give the process's terminal our size, if we hold the keyboard."""
        if not self.is_held:
            return
        size = self._size()
        try:
            await self._process.resize(size.rows, size.cols)
        except Conflict:
            self._lose("another client has taken the keyboard over; watching only")
        except (ProcessNotRunning, NotATerminal):
            pass

    async def redraw(self) -> None:
        """Let the program draw its whole screen anew: it does when its size changes."""
        size = self._size()
        if self.is_held and size.rows > 1:
            with contextlib.suppress(ExecZMQError):
                await self._process.resize(size.rows - 1, size.cols)
            await self.fit()

    async def release(self) -> None:
        """Hand the keyboard back, also one whose claim was cancelled before its answer came."""
        self.is_held = False
        if self._has_asked:
            self._has_asked = False
            with contextlib.suppress(ExecZMQError):  # process or server may have gone, and the claim with it
                await self._process.release_keyboard()

    def _lose(self, why: str) -> None:
        self.is_held = False
        if not self._refused:
            self._tell(why)
        self._refused = True
