"""Own what the wrapper around a sandbox tells of itself while a command enters it; one descriptor.

The wrapper writes JSON objects: the process id of the sandbox's first process as soon as there is one, and
the command's exit code. Where that is missing although the wrapper has ended, the command was not executed.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

_DECODER = json.JSONDecoder()


class WrapperStatus:
    """Reads the descriptor that it is given, which it owns, until it is closed.

    Attributes:
        first_pid: the sandbox's first process, which is pid 1 inside; `None` while there is none.
        exit_code: of the command, `None` while it is not told.
        has_ended: nobody can write any more.
    """

    def __init__(self, fd: int) -> None:
        self.first_pid: int | None = None
        self.exit_code: int | None = None
        self.has_ended = False
        self._fd = fd
        self._text = ""
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    async def news(self, seconds: float | None = None) -> None:
        """Wait until something was told since the last time, no longer than `seconds`; `None` = no limit."""
        timer = None if seconds is None else self._loop.call_later(seconds, self.wake)
        try:
            await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._news.clear()

    def wake(self) -> None:
        """Let who waits for news look by itself."""
        self._news.set()

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._loop.remove_reader(fd)
            os.close(fd)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._fd, 4096)
            self._text += data.decode("ascii", "replace")
            if not data:
                self.has_ended = True
                self._loop.remove_reader(self._fd)
        self._take()
        self._news.set()

    def _take(self) -> None:
        """Take the objects that are whole."""
        while text := self._text.lstrip():
            try:
                found, end = _DECODER.raw_decode(text)
            except ValueError:
                return
            self._text = text[end:]
            self._note(found)

    def _note(self, found: Any) -> None:
        if isinstance(found, dict):
            self.first_pid = found.get("child-pid", self.first_pid)
            self.exit_code = found.get("exit-code", self.exit_code)
