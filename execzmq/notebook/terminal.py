"""Own the kernel's end of a terminal in one page: the process's output to it, its keys and size to that.

Knows no comms and no widgets: `send` takes what is for the page, `receive` what comes from it. In the page is
`static/terminal.js`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from execzmq.client.sync import Process
from execzmq.errors import Conflict, ExecZMQError, ProcessNotRunning, StdinClosed
from execzmq.notebook import terminal_requests as requests
from execzmq.notebook.keyboards import Hold, Seat, SharedKeyboard, keyboard_of
from execzmq.notebook.outflow import Outflow
from execzmq.types.params import TtySize
from execzmq.types.results import ProcessInfo

MOST_WAITING = 1024 * 1024
"""Bytes of keys that may wait for a program that does not read them; a page that sends more is told so."""
BEHIND = 2 * 1024 * 1024
"""Bytes that a page is behind before it offers to skip them."""
ANSWERS_WITHIN = 1.0
"""Seconds in which a page that is there says so when it is asked."""
_REQUEST_COST = 256
"""Bytes that a request counts besides its keys."""


class TerminalEnd:
    """Shows a process's terminal in one page and types for it; usable from any thread, and never blocks.

    It begins when the page says that it is open. What the page does wrong has no effect. When the process or
    its server has gone the page is told, and nothing else happens.

    Args:
        process: with a terminal.
        send: takes a message for the page, content and buffers; called on the thread of the client's loop.
            An exception of its own ends this end.
        begins_with: size that the terminal had at its first byte, where the page is to see all from there on;
            `None` = it sees the screen as it is, and what follows.
    """

    def __init__(
        self,
        process: Process,
        send: Callable[[dict[str, Any], list[bytes]], None],
        *,
        begins_with: TtySize | None = None,
    ) -> None:
        self._process = process
        self._send = send
        self._begins_with = begins_with
        self._outflow = Outflow(process.aio, self._tell)
        self._requests: asyncio.Queue[requests.Request] = asyncio.Queue()
        self._waiting = 0
        self._room_for: TtySize | None = None
        self._told: dict[str, Any] = {}
        self._seat = Seat(self._tell_state, self._is_there)
        self._heard = asyncio.Event()
        self._keyboard: SharedKeyboard
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def rendered(self) -> int:
        """Bytes that the page has rendered since the last picture, those of the picture too."""
        return self._outflow.window.rendered

    def receive(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message from the page."""
        request = requests.parse(content, buffers)
        if request is not None:
            self._process.portal.post(partial(self._take, request))

    def close(self) -> None:
        """Tell the page nothing any more, and let go of the keyboard if it has that; idempotent."""
        self._process.portal.post(self._stop)

    def _stop(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    def _take(self, request: requests.Request) -> None:
        if self._is_closed:
            return
        self._heard.set()
        match request:
            case requests.Opened(size):
                self._open(size)
            case requests.Rendered(picture, total):
                self._outflow.acknowledge(picture, total)
            case requests.Skipped():
                self._outflow.skip()
            case requests.Here():
                pass
            case _:
                self._queue(request)

    def _open(self, size: TtySize | None) -> None:
        if self._task is None:
            self._room_for = size
            self._task = asyncio.create_task(self._run())
            self._process.portal.keep(self._task)

    def _queue(self, request: requests.Request) -> None:
        cost = _cost(request)
        if self._waiting + cost <= MOST_WAITING:
            self._waiting += cost
            self._requests.put_nowait(request)
        elif isinstance(request, requests.Typed):
            self._tell(
                {"type": "refused", "text": "the program reads no keys: what you typed was dropped"}, []
            )

    async def _run(self) -> None:
        self._keyboard = keyboard_of(self._process.portal, self._process.aio)
        self._keyboard.join(self._seat)
        typing = asyncio.create_task(self._type())
        try:
            await self._outflow.run(self._begins_with)
        except ExecZMQError as error:
            self._tell({"type": "gone", "text": error.message}, [])
        finally:
            typing.cancel()
            await asyncio.wait((typing,))
            await self._leave()

    async def _leave(self) -> None:
        with suppress(ExecZMQError):  # process or server may have gone, and the claim with it
            await self._keyboard.leave(self._seat)

    async def _type(self) -> None:
        await self._try(self._claim(take_over=False))
        while True:
            request = await self._requests.get()
            self._waiting -= _cost(request)
            await self._try(self._do(request))

    async def _try(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except (StdinClosed, ProcessNotRunning):
            pass  # its last words are on their way
        except Conflict:
            await self._try(self._keyboard.look())
        except ExecZMQError as error:
            self._tell({"type": "refused", "text": error.message}, [])

    async def _do(self, request: requests.Request) -> None:
        match request:
            case requests.Typed(data, is_user):
                if is_user and not self._keyboard.has(self._seat):
                    await self._claim(take_over=False)
                if self._keyboard.has(self._seat):
                    await self._process.aio.write(data)
            case requests.Fitted(size):
                self._room_for = size
                await self._fit()
            case requests.Took():
                await self._claim(take_over=True)
            case requests.HandedOver():
                await self._keyboard.release(self._seat)

    async def _claim(self, *, take_over: bool) -> None:
        if await self._keyboard.claim(self._seat, take_over=take_over):
            await self._fit()

    async def _fit(self) -> None:
        """Give the process's terminal the size that this page has room for, if it has the keyboard."""
        if self._room_for is not None and self._keyboard.has(self._seat):
            await self._process.aio.resize(self._room_for.rows, self._room_for.cols)

    async def _is_there(self) -> bool:
        """Ask the page whether it is there."""
        self._heard.clear()
        self._tell({"type": "ping"}, [])
        with suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), ANSWERS_WITHIN)
        return self._heard.is_set()

    def _tell_state(self, hold: Hold, info: ProcessInfo) -> None:
        offset = self._outflow.offset
        behind = 0 if offset is None else info.output_bytes.get("stdout", 0) - offset
        state = {"type": "state", "keyboard": hold, "behind": behind if behind >= BEHIND else 0}
        if state != self._told:
            self._told = state
            self._tell(state, [])

    def _tell(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        try:
            self._send(content, buffers)
        except Exception:
            self._stop()  # the way to the page is broken


def _cost(request: requests.Request) -> int:
    return _REQUEST_COST + (len(request.data) if isinstance(request, requests.Typed) else 0)
