"""Own what a process is yet to read: whose bytes are accepted exactly once, and the feeding of them.

Accepted input stands on disk before anybody is answered. It is fed by `sendfile` from an open file
description, whose offset the kernel moves together with the bytes: a later server that is handed the
description goes on exactly where this one was killed. Knows nothing of loops or of who may write.
"""

from __future__ import annotations

import errno
import os
import sys
import termios
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from execzmq.errors import InvalidRequest, LimitExceeded, StdinClosed
from execzmq.process.stdin_files import InputIndex, InputRecord, InputSegments, Segment
from execzmq.settings import STDIN_UNREAD

FEED_MOST = 256 * 1024
"""Most bytes fed by one call, so that no process keeps the loop for long."""

Buffer = bytes | bytearray | memoryview


class Mark(NamedTuple):
    """How far one session has come: its own offset, and whether the end was its last word."""

    offset: int
    end: bool


def eof_bytes(last_byte_was_newline: bool, veof: bytes) -> bytes:
    """Return what tells the reader of a terminal that its input is over.

    The first VEOF after an unfinished line only hands that line over; the second one is the end.

    Args:
        last_byte_was_newline: whether the line is finished, or nothing was ever written.
        veof: the terminal's end-of-file character; NUL or empty where it has none.
    """
    if veof in (b"", b"\0"):
        return b""
    return veof if last_byte_was_newline else veof * 2


class StdinQueue:
    """The input of one process. No file is made before the first `accept`.

    Args:
        folder: that of the instance; made where it is missing.
        writer_fd: non-blocking writing end of the pipe, or master of the terminal; not owned.
        terminal: the end of input is the terminal's VEOF, and input may go on after it.
        on_segment: called with a new open file description before the first byte is fed from it; returns
            whether it is in the keeper's hands. Until then nothing is fed from it; each `feed` asks again.
    """

    def __init__(
        self,
        folder: Path,
        writer_fd: int,
        *,
        terminal: bool = False,
        on_segment: Callable[[int], bool] = lambda fd: True,
    ) -> None:
        self.ended = False
        self.broken = False
        self._closed = False
        self._writer = writer_fd
        self._terminal = terminal
        self._on_segment = on_segment
        self._index = InputIndex(folder)
        self._segments = InputSegments(folder)
        self._held: Segment | None = None
        self._marks: dict[bytes, Mark] = {}
        self._accepted = 0
        self._fed = 0
        self._last_byte = b""

    @classmethod
    def recover(
        cls,
        folder: Path,
        writer_fd: int,
        held_fd: int,
        *,
        terminal: bool = False,
        on_segment: Callable[[int], bool] = lambda fd: True,
    ) -> StdinQueue:
        """Go on where an earlier server was killed; what was never answered is cut off.

        Args:
            held_fd: the description that the keeper was last given, owned from now on; -1 if there is none.
        """
        queue = cls(folder, writer_fd, terminal=terminal, on_segment=on_segment)
        for record in queue._index.read():
            queue._apply(record)
        queue._segments.recover(queue._accepted, held_fd)
        first, last = queue._segments.first, queue._segments.last
        queue._fed = queue._accepted if first is None else min(first.fed(), queue._accepted)
        queue._last_byte = b"" if last is None else last.last_byte()
        queue._held = first if first is not None and first.fd == held_fd else None
        return queue

    @property
    def unread(self) -> int:
        """Count the accepted bytes that have not been fed."""
        return self._accepted - self._fed

    @property
    def drained(self) -> bool:
        """Tell whether everything accepted has been fed or dropped."""
        return self._accepted == self._fed

    @property
    def feeding_fd(self) -> int:
        """Return the description that is being fed from, for a fresh keeper; -1 where there is none."""
        return -1 if self._held is None else self._held.fd

    def has_room(self, size: int) -> bool:
        """Tell whether `size` more bytes may be accepted; if nothing is unread, any size may."""
        return self.drained or self.unread + size <= STDIN_UNREAD

    def offset_of(self, session: str) -> int:
        """Return the bytes accepted from a session; its next `accept` begins there."""
        mark = self._marks.get(_digest(session))
        return 0 if mark is None else mark.offset

    def accept(self, session: str, offset: int, data: Buffer, end: bool) -> int:
        """Accept what is new of `data` and return the session's accepted offset; nothing is doubled.

        Args:
            session: whose offsets these are.
            offset: bytes that the session has written before.
            data: may overlap what was accepted already, as a repeated request does.
            end: nothing follows; for a terminal, its VEOF follows.

        Raises:
            InvalidRequest: `offset` lies beyond what was accepted; `details["offset"]` names where to go on.
            StdinClosed: the end was written before, or nobody can read any more.
            LimitExceeded: the disk is full; nothing was accepted.
        """
        key = _digest(session)
        mark = self._marks.get(key, Mark(0, False))
        if offset > mark.offset:
            message = f"stdin: {mark.offset} bytes have come so far, not {offset}; go on from there"
            raise InvalidRequest(message, offset=mark.offset)
        fresh = memoryview(data).cast("B")[mark.offset - offset :]
        if not len(fresh) and not (end and self._is_news(mark, offset + len(data))):
            return mark.offset
        self._require_open(mark.offset)
        ending = self._ending(fresh) if end and self._terminal else b""
        position = self._accepted + len(fresh) + len(ending)
        self._store((fresh, memoryview(ending)), InputRecord(key, mark.offset + len(fresh), position, end))
        return mark.offset + len(fresh)

    def feed(self) -> bool:
        """Feed what the process takes now, at most 256 KiB, without waiting; return whether more waits."""
        left = FEED_MOST
        while left > 0 and not self.drained:
            self._segments.drop_fed(self._fed)
            count = self._feed_some(left)
            if count is None:
                return True
            if count == 0:  # nobody reads any more, or the file was cut by somebody else
                self.discard()
                return False
            self._fed += count
            left -= count
        return not self.drained

    def discard(self) -> None:
        """Drop what is unread and the files with it; nothing is accepted from now on. Idempotent."""
        self.broken = True
        self._fed = self._accepted
        self._held = None
        self._segments.drop_all()

    def close(self) -> None:
        """Close the descriptors and leave the files to a later server. Idempotent."""
        self._closed = True
        self._held = None
        self._segments.close()
        self._index.close()

    def _is_news(self, mark: Mark, request_end: int) -> bool:
        """Tell whether a wish for the end, without new bytes, is neither a repeat nor already fulfilled."""
        return not (mark.end or self.ended or self.broken or request_end < mark.offset)

    def _require_open(self, offset: int) -> None:
        if self.broken or self._closed:
            raise StdinClosed("stdin is closed: the process does not read it any more", offset=offset)
        if self.ended:
            raise StdinClosed("stdin is closed: its end has been written", offset=offset)

    def _ending(self, fresh: memoryview) -> bytes:
        veof, line_ends = _terminal_characters(self._writer)
        last_byte = bytes(fresh[-1:]) or self._last_byte
        return eof_bytes(last_byte in (b"", veof, *line_ends), veof)

    def _store(self, pieces: tuple[memoryview, ...], record: InputRecord) -> None:
        position = self._accepted
        try:
            for piece in pieces:
                position = self._segments.write(position, piece)
            self._note(record)
        except OSError as error:
            self._segments.cut(self._accepted)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = "stdin: the disk of the server is full; make room there and write again"
            raise LimitExceeded(message, limit=0, value=record.position - self._accepted) from None
        self._apply(record)
        self._last_byte = b"".join(bytes(piece[-1:]) for piece in pieces)[-1:] or self._last_byte

    def _note(self, record: InputRecord) -> None:
        if self._index.is_too_long:
            marks = self._marks.items()
            self._index.rewrite(
                InputRecord(key, mark.offset, self._accepted, mark.end) for key, mark in marks
            )
        self._index.append(record)

    def _apply(self, record: InputRecord) -> None:
        self._marks[record.session] = Mark(record.offset, record.end)
        self._accepted = record.position
        self.ended |= record.end and not self._terminal

    def _feed_some(self, most: int) -> int | None:
        """Feed once and return the bytes fed: `None` if that is not possible now, 0 if it never will be."""
        segment = self._segments.first
        if segment is None:
            return 0
        if segment is not self._held:
            if not self._on_segment(segment.fd):
                return None
            self._held = segment
        try:
            return _send(self._writer, segment.fd, min(most, segment.end - self._fed))
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return 0


def _digest(session: str) -> bytes:
    return blake2b(session.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _terminal_characters(terminal: int) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the end-of-file character, empty where there is none, and those that end a line."""
    try:
        attributes = termios.tcgetattr(terminal)
    except termios.error:
        return b"", (b"\n",)
    line_ends = (b"\n", b"\r") if attributes[0] & termios.ICRNL else (b"\n",)
    veof = attributes[6][termios.VEOF]
    return (veof if isinstance(veof, bytes) else b""), line_ends


def _send(writer: int, source: int, count: int) -> int:
    """Move bytes from the offset of `source`, which moves along, to `writer`; 0 at the end of the file.

    Raises:
        BlockingIOError: the reader is behind. OSError: `EPIPE` or `EIO` when nobody reads.
    """
    if sys.platform == "linux":
        try:
            return os.sendfile(writer, source, None, count)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return copy(writer, source, count)


def copy(writer: int, source: int, count: int) -> int:
    """Do as `sendfile` where the system has none for such a file; a kill in between doubles these bytes."""
    start = os.lseek(source, 0, os.SEEK_CUR)
    data = os.pread(source, count, start)
    written = os.write(writer, data) if data else 0
    os.lseek(source, start + written, os.SEEK_SET)
    return written
