"""Own what one client session writes to one process's stdin: in order, and each byte once, whatever is lost.

A piece is sent at its offset among all bytes of this session, so that a repeated one is recognized.
"""

from __future__ import annotations

import asyncio

from execzmq.client.core import Connection
from execzmq.client.requester import Answer
from execzmq.errors import RemoteProtocolError, RequestRejected, RequestTimeout, StdinClosed, WrongEpoch
from execzmq.protocol.wire import Message
from execzmq.settings import CALL_TIMEOUT, LONG_POLL, WRITE_PIECE

_BLOCKED = 600.0
"""Seconds after which a piece that finds no room is sent anew, should its answer have been lost."""


class Writer:
    """The one writer of a session to a process; several tasks may use it.

    Args:
        is_first: nothing has been written by this session before; else it is asked how much.
    """

    def __init__(self, connection: Connection, process_id: str, *, is_first: bool) -> None:
        self._connection = connection
        self._process_id = process_id
        self._turn = asyncio.Lock()
        self._offset = 0
        self._is_sure = is_first
        self._has_ended = False
        self._under_way: asyncio.Future[Answer] | None = None

    async def write(self, data: bytes | memoryview, end: bool) -> int:
        """Write all of `data`, and the end of stdin after it where `end` says so; return the bytes.

        Waits while the process does not read. Cancelled, a part may have been accepted, in order.

        Raises:
            StdinClosed: the end was written before, or nobody reads it.
        """
        view = memoryview(data).cast("B")
        async with self._turn:
            if self._has_ended:
                raise StdinClosed(f"the end of the stdin of {self._process_id} has been written")
            if not self._is_sure:
                await self._learn_offset()
            for begin in range(0, max(len(view), 1), WRITE_PIECE):
                piece = view[begin : begin + WRITE_PIECE]
                await self._write_piece(piece, end and begin + WRITE_PIECE >= len(view))
            self._has_ended = end
        return len(view)

    async def _write_piece(self, piece: memoryview, end: bool) -> None:
        goal = self._offset + len(piece)
        while True:
            answer = await self._send(piece[len(piece) - (goal - self._offset) :], end)
            if isinstance(answer, Message):
                if self._offset == goal:
                    return
                if not goal - len(piece) <= self._offset < goal:
                    raise RemoteProtocolError(f"stdin: {self._offset} bytes were accepted, not up to {goal}")
            elif isinstance(answer, WrongEpoch):
                await self._connection.learn_epoch()
            elif not isinstance(answer, RequestTimeout):
                raise answer

    async def _learn_offset(self) -> None:
        """Ask how far a write came that was cancelled or has failed; it may still be on its way."""
        if self._under_way is not None:
            await asyncio.wait((self._under_way,))
        while not self._is_sure:
            answer = await self._send(memoryview(b""), end=False)
            if isinstance(answer, WrongEpoch):
                await self._connection.learn_epoch()
            elif not isinstance(answer, Message):
                raise answer

    async def _send(self, piece: memoryview, end: bool) -> Answer:
        """Send a piece at the offset and wait for the answer, which counts also where the caller is gone."""
        under_way: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def on_done(answer: Answer) -> None:
            self._under_way = None
            if isinstance(answer, Message):
                self._offset = answer.content["offset"]
            # What the server refuses it has not taken; after any other error it may have.
            self._is_sure = isinstance(answer, Message | RequestRejected)
            if not under_way.done():
                under_way.set_result(answer)

        content = {"process_id": self._process_id, "offset": self._offset, "end": end}
        self._connection.request("write", content, on_done, [piece], timeout=_BLOCKED, wait=LONG_POLL)
        self._is_sure, self._under_way = False, under_way
        while not under_way.done():
            await asyncio.wait((under_way,), timeout=CALL_TIMEOUT)
            if not under_way.done():
                # A process that does not read may block for ever; a server that is stuck may not.
                await self._connection.call("describe", {"id_or_name": self._process_id})
        return under_way.result()
