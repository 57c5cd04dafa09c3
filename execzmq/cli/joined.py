"""Own our terminal joined to that of a process: its output on our screen, our keys and our size to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from execzmq.cli import say
from execzmq.cli.foreground import DRAIN, copy, to_the_end
from execzmq.cli.input import Input, is_terminal
from execzmq.cli.keyboard import DetachKeys, Keyboard
from execzmq.cli.output import Output
from execzmq.cli.terminal import Terminal, size_of
from execzmq.types import events
from execzmq.types.backend import ExecProcess
from execzmq.types.results import ExitResult


class JoinedTerminal:
    """One stay of our terminal at a process.

    Args:
        process: with a terminal.
        watch: never type.
        detach_keys: bytes that end the stay.

    Attributes:
        has_left: the user has ended the stay, rather than the process or the terminal.
    """

    def __init__(self, process: ExecProcess, *, watch: bool = False, detach_keys: bytes = b"") -> None:
        self._process = process
        self._keyboard = Keyboard(process, lambda: size_of(0, 1), say.line, watch=watch)
        self._keys = DetachKeys(detach_keys)
        self._changed = asyncio.Event()
        self.has_left = False

    async def run(self, *, has_past: bool = False, take_over: bool = False) -> ExitResult | None:
        """Stay until the process ends, and return how, or until the user or the terminal leaves: `None`.

        Args:
            has_past: show first what its terminal shows already.
            take_over: take the keyboard from whoever holds it.

        Raises:
            ExecZMQError: the process or the server has gone. OSError: our terminal has gone.
        """
        output = Output()
        with contextlib.closing(output), Terminal(0, self._changed.set) as terminal:
            seq, is_cut = 0, False
            if has_past:
                screen = await self._process.screen()
                seq, is_cut = screen.seq, screen.is_cut
                terminal.modes.feed(screen.data)
                await output.write("stdout", _empty_screen() + screen.data)
                await output.finish()
            try:
                if await self._keyboard.claim(take_over=take_over) and is_cut:
                    await self._keyboard.redraw()
                watching = asyncio.create_task(self._show(terminal, output, seq))
                typing = asyncio.create_task(self._type())
                fitting = asyncio.create_task(self._fit())
                return await _first_of(watching, typing, fitting)
            finally:
                await to_the_end(self._keyboard.release())

    async def _type(self) -> None:
        source = Input(0)
        while data := await source.read():
            data, is_over = self._keys.feed(data)
            self.has_left = (bool(data) and await self._keyboard.type(data)) or is_over
            if self.has_left:
                return

    async def _fit(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._keyboard.fit()

    async def _show(self, terminal: Terminal, output: Output, seq: int) -> ExitResult:
        on_screen = is_terminal(1)

        def shown(event: events.Output) -> bytes:
            if on_screen:
                terminal.modes.feed(event.data)
            return event.data

        return await copy(self._process, output, after_seq=seq, drain=DRAIN, on_output=shown)


def _empty_screen() -> bytes:
    """Return what makes room on our screen, whose text moves up to what can be scrolled back to."""
    return b"\n" * size_of(1).rows + b"\x1b[H" if is_terminal(1) else b""


async def _first_of(
    watching: asyncio.Task[ExitResult], typing: asyncio.Task[None], fitting: asyncio.Task[None]
) -> ExitResult | None:
    tasks: tuple[asyncio.Task[Any], ...] = (watching, typing, fitting)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if watching in done:
        return watching.result()
    for task in done:
        task.result()
    return None
