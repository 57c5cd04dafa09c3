"""Own the way from the answer to a read to its page, also where it names a file of this machine.

A page of a flood is then copied once instead of four times, and by the reader instead of the server.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from execzmq.errors import RemoteProtocolError
from execzmq.protocol.values import read_response_from_wire
from execzmq.protocol.wire import Message
from execzmq.types.results import ReadResponse


class PageGone(Exception):
    """The file of a page cannot be read (any more) by this process; the server still tells what is there."""


class StoredBytes:
    """The output of a page in a file, read part by part; an open descriptor until `close`.

    Args:
        path: of the file.
        identity: device and inode that it has for the server.
        position: of the first byte in it.
        length: bytes of the page.

    Raises:
        PageGone: it cannot be opened, or another file has the path here, as in a chroot.
    """

    def __init__(self, path: bytes, identity: tuple[int, int], position: int, length: int) -> None:
        self._position = position
        self._length = length
        try:
            # One that waits for a writer must not make this client wait.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            raise PageGone from error
        status = os.fstat(self._fd)
        if (status.st_dev, status.st_ino) != identity or not stat.S_ISREG(status.st_mode):
            self.close()
            raise PageGone

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> bytes:
        """Return these bytes.

        Raises:
            PageGone: they are not there.
        """
        length = part.stop - part.start
        try:
            data = os.pread(self._fd, length, self._position + part.start)
        except OSError as error:
            raise PageGone from error
        if len(data) != length:
            raise PageGone
        return data

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


def page_of(answer: Message) -> ReadResponse:
    """Return the page that a `read_reply` without error, whose fields have been checked, holds.

    Raises:
        PageGone: its output stands in a file that cannot be read; ask again without `by_file`.
        RemoteProtocolError: it is no page.
    """
    content = answer.content
    path = content.get("file")
    if path is None:
        return read_response_from_wire(content, answer.buffers)
    numbers: list[Any] = [content.get(name) for name in ("device", "inode", "position", "length")]
    if b"\0" in path or None in numbers or min(numbers) < 0:
        raise RemoteProtocolError("read_reply: file and its numbers do not name a part of a file")
    device, inode, position, length = numbers
    stored = StoredBytes(path, (device, inode), position, length)
    try:
        return read_response_from_wire(content, answer.buffers, stored)
    finally:
        stored.close()
