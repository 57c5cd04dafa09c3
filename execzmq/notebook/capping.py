"""Own how much of a process's output a cell shows: a head, then a tail that moves, and how often; pure.

The clock is the caller's. What is not shown is counted, not kept: the log has it.
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass

from execzmq.notebook.bars import Overwriting, last_state
from execzmq.settings import KIB
from execzmq.types.events import Stream

INTERVAL = 0.1
"""Seconds between two writes."""
SLOW_INTERVAL = 1.0
"""The same once much more was written than is to be seen: a bar that moves for hours."""
MOST_PIECES = 16
"""Most times that the streams take turns within one interval; beyond it their order there is given up."""


@dataclass(slots=True, frozen=True)
class Caps:
    """How much is shown.

    Args:
        head: characters to be seen of the head, or a quarter of those it has with what is not seen; twice as
            many are written before writes come more slowly.
        head_lines: lines of the head.
        tail: characters of the tail.
        tail_lines: lines of the tail.
    """

    head: int = 64 * KIB
    head_lines: int = 1000
    tail: int = 16 * KIB
    tail_lines: int = 100


DEFAULT_CAPS = Caps()
_MOST_KEPT = 4
"""Times as many characters as are to be seen that the head has at most with its colours and the like."""


class Pace:
    """When the next write is due: the first one at once."""

    def __init__(self) -> None:
        self._due = float("-inf")

    def left(self, now: float) -> float:
        """Return the seconds until the next write may come."""
        return max(0.0, self._due - now)

    def wrote(self, now: float, *, slowly: bool) -> None:
        """Take note of a write."""
        self._due = now + (SLOW_INTERVAL if slowly else INTERVAL)


class Capped:
    """The output of one process on its way into a cell.

    Attributes:
        tail: what comes after the head, once that is full.
    """

    def __init__(self, caps: Caps = DEFAULT_CAPS) -> None:
        self.tail: Tail | None = None
        self._caps = caps
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {}
        self._bars: dict[Stream, Overwriting] = {}
        self._pending: list[tuple[Stream, str]] = []
        self._written = 0
        self._ends: dict[Stream, int] = {}

    @property
    def total(self) -> int:
        """How many bytes the process has written so far."""
        return sum(self._ends.values())

    @property
    def is_slow(self) -> bool:
        """Whether so much was written that writes shall come more slowly."""
        return self.tail is None and self._written > 2 * self._caps.head

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to be written or shown."""
        return bool(self._pending) or (self.tail is not None and self.tail.is_new)

    def feed(self, stream: Stream, offset: int, data: bytes) -> None:
        """Take output that stands at `offset` of its stream."""
        self._ends[stream] = offset + len(data)
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        self._add(stream, decoder.decode(data))

    def say(self, text: str) -> None:
        """Take a line of ours, which stands where the output is by then."""
        self._add("stderr", f"{text}\n")

    def skip(self) -> None:
        """Take note that output is left out here, which only a tail can bear."""
        assert self.tail is not None
        self.tail.skip()
        self._decoders.clear()

    def finish(self) -> None:
        """Take note that nothing follows."""
        for stream, decoder in self._decoders.items():
            self._add(stream, decoder.decode(b"", final=True))
        self._decoders.clear()

    def take(self) -> list[tuple[Stream, str]]:
        """Return what is to be written to the head now; beyond it all goes into the tail."""
        pending, self._pending = _joined(self._pending), []
        written = []
        for stream, text in pending:
            if piece := self._admit(stream, text):
                written.append((stream, piece))
                self._written += len(piece)
        return written

    def _add(self, stream: Stream, text: str) -> None:
        if not text:
            return
        if self.tail is not None:
            self.tail.feed(stream, text)
        elif self._pending and self._pending[-1][0] == stream:
            self._pending[-1] = (stream, self._pending[-1][1] + text)
        else:
            self._pending.append((stream, text))

    def _admit(self, stream: Stream, text: str) -> str:
        """Return what the head takes of a text, line by line; with more than that the tail begins."""
        bar, at, taken = self._bars.setdefault(stream, Overwriting()), 0, []
        while self.tail is None and at < len(text):
            room = self._room()
            end = text.find("\n", at) + 1 or len(text)
            if room and "\r" not in text[at:end]:
                end = min(end, at + room)
            if not room:
                self.tail = Tail(self._caps)
                break
            taken.append(bar.feed(text[at:end]))
            at = end
        if self.tail is not None:
            self.tail.feed(stream, text[at:])
        return "".join(taken)

    def _room(self) -> int:
        """Return how many characters the head still takes."""
        bars = self._bars.values()
        if sum(bar.lines for bar in bars) >= self._caps.head_lines:
            return 0
        kept = sum(bar.kept for bar in bars)
        return max(
            0, min(self._caps.head - sum(bar.seen for bar in bars), _MOST_KEPT * self._caps.head - kept)
        )


class Tail:
    """The last lines, of both streams as they came."""

    def __init__(self, caps: Caps) -> None:
        self.is_new = False
        self._caps = caps
        self._lines: deque[str] = deque(maxlen=caps.tail_lines)
        self._open = ""  # what has no line end yet
        self._stream: Stream | None = None
        self._is_cut = False

    def feed(self, stream: Stream, text: str) -> None:
        """Take what follows; another stream than before begins a line of its own."""
        if not text:
            return
        if self._stream not in (None, stream) and self._open:
            self._end_line()
        self._stream, self.is_new = stream, True
        if len(text) > self._caps.tail:
            text = text[-self._caps.tail :]
            self.skip()
        first, *others = text.split("\n")
        self._extend(first)
        for line in others:
            self._end_line()
            self._extend(line)

    def skip(self) -> None:
        """Take note that what follows does not follow what was there."""
        self._lines.clear()
        self._open, self._is_cut = "", True

    def text(self, note: str) -> str:
        """Return what is to be shown, and below it `note`; it counts as shown."""
        self.is_new = False
        lines: list[str] = []
        room = self._caps.tail
        for line in reversed((*self._lines, last_state(self._open))):
            room -= len(line) + 1
            if room < 0 and lines:
                break
            lines.append(line)
        is_cut = self._is_cut or len(lines) <= len(self._lines)
        if lines and not lines[0]:
            del lines[0]
        shown = "\n".join((*(("[...]",) if is_cut else ()), *reversed(lines)))
        return f"{shown}{_RESET if _ESC in shown else ''}\n{note}"

    def _extend(self, text: str) -> None:
        self._open = (self._open + text)[-self._caps.tail :]

    def _end_line(self) -> None:
        self._is_cut = self._is_cut or len(self._lines) == self._caps.tail_lines
        self._lines.append(last_state(self._open))
        self._open = ""


_ESC = "\x1b"
_RESET = "\x1b[0m"


def _joined(pieces: list[tuple[Stream, str]]) -> list[tuple[Stream, str]]:
    """Return the pieces; of streams that take turns too often one after the other, each written once."""
    if len(pieces) <= MOST_PIECES:
        return pieces
    streams = dict.fromkeys(stream for stream, _ in pieces)
    return [(one, "".join(text for stream, text in pieces if stream == one)) for one in streams]
