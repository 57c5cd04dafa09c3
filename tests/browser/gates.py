"""A command that says what the test tells it to, when it tells it. Knows nothing of pages."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


class Gate:
    """What a test holds of it: `line`, a shell's, which prints each line that is let through."""

    def __init__(self, path: Path, fd: int) -> None:
        self.line = f"while read line; do echo $line; done < {path}"
        self._fd = fd

    def let(self, text: str) -> None:
        """Let it print a line."""
        os.write(self._fd, text.encode() + b"\n")

    def end(self) -> None:
        """Let it end; idempotent."""
        if self._fd != -1:
            fd, self._fd = self._fd, -1
            os.close(fd)


@contextlib.contextmanager
def gate(folder: Path) -> Iterator[Gate]:
    """Make the pipe that it reads; it ends when this does."""
    path = folder / "gate"
    os.mkfifo(path)
    gate = Gate(path, os.open(path, os.O_RDWR))  # a writer alone would wait for the reader
    try:
        yield gate
    finally:
        gate.end()
