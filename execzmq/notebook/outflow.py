"""Own the way of a terminal's output to one page: a picture of the screen, then all that follows.

Reads the log at its own pace, so a page that is slow, or gone, holds up neither the process nor other pages.
What it has not taken yet is bounded; the log has the rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from execzmq.client.aio import AsyncProcess
from execzmq.notebook.flow import CHUNK, AckWindow
from execzmq.types.events import Closed, Event, Failed, Gap, Notice, Output
from execzmq.types.params import TtySize

_MOST_HELD = 4 * CHUNK
"""Bytes that may wait here for the page, besides those of the event that passed it."""

Tell: TypeAlias = Callable[[dict[str, Any], list[bytes]], None]


@dataclass(slots=True, frozen=True)
class _Lost:
    size: int


@dataclass(slots=True, frozen=True)
class _End:
    text: str


_Item: TypeAlias = Output | TtySize | _Lost | _End


class Outflow:
    """Streams one process's terminal to one page.

    Args:
        process: whose output.
        tell: takes a message for the page.

    Attributes:
        window: what was sent, and rendered, since the last picture.
        offset: where in the output it is; `None` = nothing was sent since the last picture.
    """

    def __init__(self, process: AsyncProcess, tell: Tell) -> None:
        self._process = process
        self._tell = tell
        self.window = AckWindow()
        self.offset: int | None = None
        self._pictures = 0
        self._items: deque[_Item] = deque()
        self._held = 0
        self._begun = 0  # bytes of the first item that were sent
        self._skips = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self, size: TtySize | None) -> None:
        """Stream to the end of the output.

        Args:
            size: begin with the first byte, with which the terminal had this size; `None` = with the screen.

        Raises:
            ExecZMQError: the process was forgotten, or its server is lost.
        """
        if size is not None:
            self._show_picture(size, b"")
            if await self._follow(0):
                return
        while True:
            screen = await self._process.screen()
            self._show_picture(TtySize(screen.rows, screen.cols), screen.data)
            if await self._follow(screen.seq):
                return

    def acknowledge(self, picture: int, total: int) -> None:
        """Note what the page has rendered since a picture; what was before the last one does not count."""
        if picture == self._pictures:
            self.window.acknowledge(total)
            self._changed.set()

    def skip(self) -> None:
        """Go on from the screen as it is, and leave out what is not sent yet."""
        self._skips = True
        self._changed.set()

    def _show_picture(self, size: TtySize, data: bytes) -> None:
        self._pictures += 1
        self.window.restart()
        self._skips = False
        self._tell(
            {"type": "picture", "picture": self._pictures, "rows": size.rows, "cols": size.cols}, [data]
        )
        self.window.add(len(data), self._now())

    async def _follow(self, seq: int) -> bool:
        """Send what follows an event; return whether that was all, rather than that a picture is wanted."""
        self._items.clear()
        self._held = self._begun = 0
        self.offset = None
        reading = asyncio.create_task(self._read(seq))
        try:
            return await self._write(reading)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    async def _read(self, seq: int) -> None:
        async with aclosing(self._process.events(seq)) as events:
            async for event in events:
                item = _item_of(event)
                if item is None:
                    continue
                self._items.append(item)
                self._held += len(item.data) if isinstance(item, Output) else 0
                self._changed.set()
                while self._held > _MOST_HELD:
                    self._room.clear()
                    await self._room.wait()

    async def _write(self, reading: asyncio.Task[None]) -> bool:
        reading.add_done_callback(lambda _: self._changed.set())
        while True:
            await self._until(lambda: bool(self._items) or reading.done())
            if self._skips:
                return False
            if not self._items:
                reading.result()
                return True
            match self._items[0]:
                case Output():
                    await self._write_output()
                case TtySize(rows, cols):
                    self._items.popleft()
                    self._tell({"type": "size", "rows": rows, "cols": cols}, [])
                case _Lost(size):
                    self._tell({"type": "lost", "bytes": size}, [])
                    return False
                case _End(text):
                    self._items.popleft()
                    self._tell({"type": "ended", "text": text}, [])

    async def _write_output(self) -> None:
        await self._until(lambda: self.window.room > 0)
        pause = self.window.wait(self._now())
        if pause > 0:
            await asyncio.sleep(pause)
        if not self._skips:
            data = self._take(self.window.room)
            self._tell({"type": "output", "picture": self._pictures}, [data])
            self.window.add(len(data), self._now())

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, or the present is wanted."""
        while not self._skips and not is_so():
            self._changed.clear()
            await self._changed.wait()

    def _take(self, most: int) -> bytes:
        """Take at most so many bytes of the output that stands first."""
        pieces: list[bytes] = []
        while most and self._items and isinstance(first := self._items[0], Output):
            piece = first.data[self._begun : self._begun + most]
            self._begun += len(piece)
            self.offset = first.offset + self._begun
            if self._begun == len(first.data):
                self._items.popleft()
                self._begun = 0
            pieces.append(piece)
            most -= len(piece)
            self._held -= len(piece)
        if self._held <= _MOST_HELD:
            self._room.set()
        return b"".join(pieces)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _item_of(event: Event) -> _Item | None:
    match event:
        case Output():
            return event
        case Notice(kind="resized", data={"rows": int(rows), "cols": int(cols)}):
            return TtySize(rows, cols)
        case Gap(bytes=size):
            return _Lost(size)
        case Closed(result=result):
            return _End(str(result))
        case Failed(error=error):
            return _End(str(error.get("evalue", "it could not be started")))
    return None
