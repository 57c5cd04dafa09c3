"""Own one ssh that runs: its pipes, what it says, its end. Knows nothing of what it is used for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Literal

from execzmq.environments.ssh_words import marked
from execzmq.errors import ConnectionFailed

_LINES = 20
_LINE = 500
"""Lines that are kept of what it says on stderr, and characters of each."""
_MOST_OUTPUT = 256 * 1024
"""Bytes on stdout up to the marked line."""
_DRAIN = 0.5
"""Seconds after the exit in which the pipes end, unless a helper of ssh's holds them."""
_LEAVE = 2.0
"""Seconds that it has to end by itself, so that what was just sent still leaves; then as many after TERM."""


class SshChild(asyncio.SubprocessProtocol):
    """An ssh, from its start to its end; made by `start`.

    Attributes:
        said: the last lines that it wrote to stderr.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.said: deque[str] = deque(maxlen=_LINES)
        self._lent: asyncio.Future[bytes | None] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._output = b""
        self._line = b""
        self._transport: asyncio.SubprocessTransport

    @classmethod
    async def start(cls, argv: Sequence[str], stdin: Literal["pipe", "none"] = "pipe") -> SshChild:
        """Start an ssh in a session of its own: no key at the caller's terminal reaches it.

        Raises:
            ConnectionFailed: there is no such program here, or it cannot be started.
        """
        begin = asyncio.get_running_loop().subprocess_exec
        source = asyncio.subprocess.PIPE if stdin == "pipe" else asyncio.subprocess.DEVNULL
        try:
            _, child = await begin(cls, *argv, stdin=source, start_new_session=True)
        except FileNotFoundError:
            raise ConnectionFailed("there is no ssh here: install OpenSSH's client") from None
        except OSError as error:
            raise ConnectionFailed(f"ssh cannot be started: {error.strerror}") from None
        return child

    async def lent(self) -> bytes | None:
        """Wait for the marked line of its output; return what stands on it, `None` where it ended without."""
        return await asyncio.shield(self._lent)

    async def ended(self) -> int:
        """Wait for its end and return its status; it has said all by then."""
        return await asyncio.shield(self._ended)

    async def aclose(self) -> None:
        """Let it end, make it end where it does not, and wait for that; idempotent.

        Cancelled, it is killed.
        """
        try:
            stdin = self._transport.get_pipe_transport(0)
            if stdin is not None:
                stdin.close()
            if not self._lent.done() or not await self._ends_soon():  # who has lent nothing carries nothing
                with contextlib.suppress(ProcessLookupError):
                    self._transport.terminate()
                await self._ends_soon()
        finally:
            self._transport.close()  # kills it where it still runs
        await self.ended()

    async def _ends_soon(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE):
                await self.ended()
        return self._ended.done()

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what it wrote."""
        if fd == 2:
            *lines, self._line = (self._line + data).split(b"\n")
            self.said.extend(line[:_LINE].decode(errors="replace").rstrip() for line in lines)
            self._line = self._line[:_LINE]
        elif not self._lent.done() and len(self._output) < _MOST_OUTPUT:
            self._output += data
            lent = marked(self._output)
            if lent is not None:
                self._lent.set_result(lent)
                self._output = b""

    def process_exited(self) -> None:
        """Note its exit; its last words may still be on their way."""
        asyncio.get_running_loop().call_later(_DRAIN, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that it has exited and all its pipes have ended."""
        self._end()

    def _end(self) -> None:
        if self._ended.done():
            return
        if self._line:
            self.said.append(self._line.decode(errors="replace"))
        status = self._transport.get_returncode()
        self._ended.set_result(255 if status is None else status)
        if not self._lent.done():
            self._lent.set_result(None)
        self._transport.close()
