"""Own the way from the answer to a read to its page, also where it names a file of this machine.

A page of a flood is then copied once instead of four times, and by the reader instead of the server.
"""

from __future__ import annotations

import os

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
        position: of the first byte in it.
        length: bytes of the page.

    Raises:
        PageGone: it cannot be opened.
    """

    def __init__(self, path: bytes, position: int, length: int) -> None:
        self._position = position
        self._length = length
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise PageGone from error

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
    position, length = content.get("position"), content.get("length")
    if b"\0" in path or position is None or length is None or min(position, length) < 0:
        raise RemoteProtocolError("read_reply: file, position and length do not name a part of a file")
    stored = StoredBytes(path, position, length)
    try:
        return read_response_from_wire(content, answer.buffers, stored)
    finally:
        stored.close()
