"""How a file of the kernel's is read: without Python's files, which cost more than the reading.

Owns nothing.
"""

from __future__ import annotations

import os

_PIECE = 64 * 1024


def read(path: str, most: int | None = None) -> bytes:
    """Return the content of a file below `/proc`.

    Args:
        most: bytes that are wanted of it; `None` = all.

    Raises:
        OSError: there is no such file or process, or no descriptor to read it with.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, most or _PIECE)
        while most is None and (piece := os.read(fd, _PIECE)):
            content += piece
        return content
    finally:
        os.close(fd)
