"""Own who types at a terminal, among the pages of one notebook and between it and other clients.

To the server a notebook is one client, however many pages show its terminals. So a claim is made once, and
which of the pages has it is known here alone.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, TypeAlias

from execzmq.client.aio import AsyncProcess
from execzmq.client.portal import LoopThread
from execzmq.errors import Conflict, ExecZMQError, PermissionRefused
from execzmq.types.results import ProcessInfo

LOOK_EVERY = 1.0
"""Seconds between two looks at who has the keyboard: another client is told of nothing when it loses it."""

Hold: TypeAlias = Literal["yours", "free", "elsewhere", "refused"]
"""Who has the keyboard, as one page is told; `refused` = this connection is for watching alone."""


class Seat:
    """One page's place at a shared keyboard.

    Args:
        changed: called with who has the keyboard now and how the process is, at each look and each change.
        is_there: tells whether the page lives; it may have been closed or loaded anew without a word.
    """

    def __init__(
        self, changed: Callable[[Hold, ProcessInfo], None], is_there: Callable[[], Awaitable[bool]]
    ) -> None:
        self.changed = changed
        self.is_there = is_there


class SharedKeyboard:
    """The keyboard of one process's terminal, for the pages of one client; on that client's loop.

    Args:
        process: whose terminal.
    """

    def __init__(self, process: AsyncProcess) -> None:
        self._process = process
        self._seats: list[Seat] = []
        self._holder: Seat | None = None
        self._ours: str | None = None
        self._is_refused = False
        self._info: ProcessInfo | None = None
        self._asking = asyncio.Lock()  # an answer that was on its way during a claim would undo it
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_deserted(self) -> bool:
        """Whether no page is there any more."""
        return not self._seats

    def join(self, seat: Seat) -> None:
        """Let a page take part; it hears who has the keyboard when it claims it, and from then on."""
        self._seats.append(seat)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_again_and_again())

    async def leave(self, seat: Seat) -> None:
        """Let a page go, and the keyboard if it has that. Idempotent."""
        if seat not in self._seats:
            return
        self._seats.remove(seat)
        if self.is_deserted and self._looking is not None:
            self._looking.cancel()
            self._looking = None
        await self.release(seat)

    def has(self, seat: Seat) -> bool:
        """Tell whether a page may type."""
        return self._holder is seat

    async def claim(self, seat: Seat, *, take_over: bool) -> bool:
        """Give a page the keyboard, and tell whether it has it now.

        Args:
            take_over: from whoever has it; otherwise only where nobody has, or a page that is gone.

        Raises:
            ExecZMQError: other than that somebody else has it, or that this client may only watch.
        """
        async with self._asking:
            if take_over or self._holder in (None, seat) or not await self._holder.is_there():
                await self._claim(seat, take_over)
            info = await self._process.info()
            if self._holder is not None:
                self._ours = self._ours or info.keyboard
            self._note(info)
        return self.has(seat)

    async def _claim(self, seat: Seat, take_over: bool) -> None:
        try:
            await self._process.claim_keyboard(take_over)
            self._holder = seat
        except PermissionRefused:
            self._is_refused = True
        except Conflict:
            self._holder = None

    async def release(self, seat: Seat) -> None:
        """Let anybody have the keyboard that this page has; no effect where it has not.

        Raises:
            ExecZMQError: the process or its server has gone.
        """
        async with self._asking:
            if not self.has(seat):
                return
            self._holder = None
            await self._process.release_keyboard()
            if self._seats:
                self._note(await self._process.info())

    async def look(self) -> None:
        """Ask who has the keyboard, and tell the pages.

        Raises:
            ExecZMQError: the process or its server has gone.
        """
        async with self._asking:
            self._note(await self._process.info())

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            with suppress(ExecZMQError):  # whoever follows the output tells what has happened
                await self.look()

    def _note(self, info: ProcessInfo) -> None:
        if info.keyboard is None or info.keyboard != self._ours:
            self._holder = None
        for seat in self._seats:
            seat.changed(self._hold(seat, info), info)

    def _hold(self, seat: Seat, info: ProcessInfo) -> Hold:
        if self._is_refused:
            return "refused"
        if self.has(seat):
            return "yours"
        return "free" if info.keyboard is None else "elsewhere"


_shared: weakref.WeakKeyDictionary[LoopThread, dict[tuple[str, int], SharedKeyboard]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.Lock()


def keyboard_of(portal: LoopThread, process: AsyncProcess) -> SharedKeyboard:
    """Return the keyboard that all pages of one client share for a process; on the client's loop."""
    with _lock:
        keyboards = _shared.setdefault(portal, {})
    for key in [key for key, keyboard in keyboards.items() if keyboard.is_deserted]:
        del keyboards[key]
    return keyboards.setdefault((process.process_id, process.instance), SharedKeyboard(process))
