"""Own the talk of `Popen.communicate`: write all of the input and read both streams to their ends at once.

Keeps what it has read over a timeout, so that it can go on. Works on descriptors, in the caller's thread.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable
from typing import IO, Any

READ_SIZE = 256 * 1024
WRITE_SIZE = 1024 * 1024


class Talk:
    """One `communicate`, from its first call to its last.

    Args:
        stdin: closed when all of `data` is written; `None` = there is none.
        outputs: files to read, each to its end.
        data: what is written to stdin.
    """

    def __init__(self, stdin: IO[Any] | None, outputs: list[IO[Any]], data: bytes | memoryview) -> None:
        self._stdin = stdin
        self._rest = memoryview(data)
        self._open = list(outputs)
        self._read: dict[IO[Any], list[bytes]] = {file: [] for file in outputs}

    def go_on(self, left: Callable[[], float | None]) -> bool:
        """Write and read until all is done; return False when `left()` seconds have come to nothing."""
        self._begin_input()
        with selectors.PollSelector() as selector:
            if self._stdin is not None:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            for file in self._open:
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                seconds = left()
                if seconds is not None and seconds <= 0:
                    return False
                for key, _ in selector.select(seconds):
                    if self._step(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]  # files only
        return True

    def data_of(self, file: IO[Any] | None) -> bytes | None:
        """Return what has been read from `file`, `None` where it is not one of the outputs."""
        return None if file is None or file not in self._read else b"".join(self._read[file])

    def _begin_input(self) -> None:
        if self._stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):  # the command has closed its stdin
            self._stdin.flush()
        if not self._rest:
            self._close_input()
        else:
            os.set_blocking(self._stdin.fileno(), False)

    def _close_input(self) -> None:
        if self._stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
            self._stdin = None

    def _step(self, file: Any) -> bool:
        """Write or read one piece; return whether the file is done."""
        if self._stdin is not None and file is self._stdin:
            return self._write(self._stdin.fileno())
        data = os.read(file.fileno(), READ_SIZE)
        if data:
            self._read[file].append(data)
            return False
        self._open.remove(file)
        return True

    def _write(self, fd: int) -> bool:
        try:
            self._rest = self._rest[os.write(fd, self._rest[:WRITE_SIZE]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._rest = memoryview(b"")
        if not self._rest:
            self._stdin = None
        return not self._rest


def countdown(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that tells the seconds left of `timeout`; `None` = no limit."""
    if timeout is None:
        return lambda: None
    end = time.monotonic() + timeout
    return lambda: end - time.monotonic()
