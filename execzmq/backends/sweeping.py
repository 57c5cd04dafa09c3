"""Own when what sandboxes have left on the disk is removed: soon after the last of them, aside of the loop.

Knows nothing of processes: their keys name sandboxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

from execzmq.aside import aside
from execzmq.connection import shared_folder
from execzmq.sandbox.model import View
from execzmq.sandbox.placeholders import Placeholders

_JOURNAL = "placeholders"
_SECONDS = 10.0
_LAST_SECONDS = 3.0
"""Time that a look at the machine and its file systems may take, and that of the last one."""
_FIRST_PAUSE = 0.2
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a look, which takes some milliseconds of the next start where one command follows another,
and between two, while other sandboxes are being started or need the same."""
_TURN = 0.01
"""Seconds until it is one's turn to look, where another one looks."""


class Sweeper:
    """What the sandboxes of one backend have left on the disk.

    Args:
        folder: the backend's state folder.
        run: runs what must be waited for.
    """

    def __init__(self, folder: Path, run: Callable[[Coroutine[Any, Any, object]], None]) -> None:
        lock = os.fsencode(shared_folder() / "sandboxes.lock")
        self._placeholders = Placeholders(os.fsencode(folder / _JOURNAL), lock)
        self._run = run
        self._is_sweeping = False
        self._released = asyncio.Event()

    @property
    def paths(self) -> frozenset[bytes]:
        """Return what is left on the disk now."""
        return self._placeholders.paths

    def starting(self, *, waits: bool) -> int:
        """Return what keeps everything where it is until it is closed. See `Placeholders`."""
        return self._placeholders.starting(waits=waits)

    def hold(self, key: str, view: View) -> None:
        """Count a sandbox that is being started as a user of what it leaves. Raises OSError: it is not."""
        try:
            self._placeholders.hold(key, view)
        except BaseException:
            self._poke()
            raise

    def recover(self, alive: Collection[str]) -> None:
        """Take over what earlier lives have left, and remove what none of these sandboxes needs."""
        self._placeholders.recover(alive)
        if len(self._placeholders):
            self._run(self._find())
        self._poke()

    def release(self, key: str) -> None:
        """Remove, soon, what nobody needs after this sandbox. Idempotent."""
        self._placeholders.release(key)
        self._released.set()
        self._poke()

    async def aclose(self) -> None:
        """Look a last time, when nothing is run any more; what is left then is for the next life."""
        try:
            await self._look_last()
        finally:
            self._placeholders.close()

    async def _look_last(self) -> None:
        with contextlib.suppress(OSError):  # of time too
            async with asyncio.timeout(_LAST_SECONDS):
                # A look that was cancelled goes on in its thread, and others look too: each keeps all out.
                while self._placeholders.has_left:
                    if await aside(self._placeholders.sweep, _LAST_SECONDS):
                        return
                    await asyncio.sleep(_TURN)

    async def _find(self) -> None:
        with contextlib.suppress(OSError):  # of time too
            await aside(self._placeholders.find, _SECONDS)

    def _poke(self) -> None:
        if self._placeholders.has_left and not self._is_sweeping:
            self._is_sweeping = True
            self._run(self._sweep())

    async def _sweep(self) -> None:
        pause = _PAUSE
        try:
            await asyncio.sleep(_FIRST_PAUSE)  # what ends about now is one look at the machine
            while self._placeholders.has_left:
                with contextlib.suppress(OSError):  # of time too: it is tried again
                    await aside(self._placeholders.sweep, _SECONDS)
                if self._placeholders.has_left:
                    pause = await self._wait(pause)
        finally:
            self._is_sweeping = False

    async def _wait(self, pause: float) -> float:
        """Wait until it is worth another try; return the next pause, which begins anew with each release."""
        self._released.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._released.wait()
        if not self._released.is_set():
            return min(2 * pause, _LONGEST_PAUSE)
        await asyncio.sleep(_PAUSE)  # those that end together are one try
        return _PAUSE


def has_journal(folder: Path) -> bool:
    """Tell whether an earlier life may have left something."""
    return (folder / _JOURNAL).exists()
