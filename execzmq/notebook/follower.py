"""Own the way of a process's output to the pane of one page: after an event, in order, at the page's pace.

The page is a person's screen, not a record: where it is far behind, what it could never show is left out and
counted; the log has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from execzmq.client.aio import AsyncProcess
from execzmq.types.events import Closed, Failed, Gap, Output
from execzmq.types.results import ReadResponse

PIECE = 64 * 1024
"""Bytes of output in one message, or one event where that is more."""
PAUSE = 0.05
"""Seconds between two messages: 20 a second."""
MOST_UNSEEN = 2
"""Messages on the way that the page has not shown yet."""
MOST_BEHIND = 1024 * 1024
"""Bytes that a page may be behind before the middle is left out."""
_NEWEST = 4
"""Events that it goes on with then."""
_WAIT = 20.0

Tell: TypeAlias = Callable[[dict[str, Any], list[bytes]], None]


class Follower:
    """Streams one process's output to one pane.

    Args:
        process: whose output.
        tell: takes a message for the page.
        seq: the last event that the page has.
    """

    def __init__(self, process: AsyncProcess, tell: Tell, seq: int) -> None:
        self._process = process
        self._tell = tell
        self._seq = seq
        self._sent = self._shown = 0
        self._has_shown = asyncio.Event()
        self._offsets: dict[str, int] = {}

    def acknowledge(self, number: int) -> None:
        """Note the newest message that the page has shown."""
        self._shown = max(self._shown, min(number, self._sent))
        self._has_shown.set()

    async def run(self) -> None:
        """Stream to the end of the output.

        Raises:
            ExecZMQError: the process was forgotten, or its server is lost.
        """
        while True:
            page = await self._process.read(self._seq, PIECE, _WAIT)
            self._show(page)
            if page.chunks and isinstance(page.chunks[-1], Closed | Failed):
                return
            await asyncio.sleep(PAUSE)
            await self._until_shown()
            if page.last_seq - page.next_seq > 2 * _NEWEST:
                await self._skip()

    def _show(self, page: ReadResponse) -> None:
        """Send what a page of the log has for the pane, in one message."""
        pieces: list[list[Any]] = []
        data: list[bytes] = []
        for event in page.chunks:
            if isinstance(event, Gap):
                self._offsets.clear()
                pieces.append(["lost", event.bytes])
            elif isinstance(event, Output):
                left_out = event.offset - self._offsets.get(event.stream, event.offset)
                if left_out > 0:
                    pieces.append(["left_out", left_out])
                self._offsets[event.stream] = event.offset + len(event.data)
                pieces.append([event.stream, len(event.data)])
                data.append(event.data)
        self._seq = page.next_seq
        if pieces:
            self._sent += 1
            self._tell(
                {"type": "output", "number": self._sent, "seq": self._seq, "pieces": pieces}, [b"".join(data)]
            )

    async def _until_shown(self) -> None:
        while self._sent - self._shown >= MOST_UNSEEN:
            self._has_shown.clear()
            await self._has_shown.wait()

    async def _skip(self) -> None:
        """Go on with the newest output where the page is so far behind that nobody reads what is between."""
        info = await self._process.info()
        behind = sum(max(info.output_bytes.get(name, 0) - at, 0) for name, at in self._offsets.items())
        if behind > MOST_BEHIND:
            self._seq = max(self._seq, info.last_seq - _NEWEST)
