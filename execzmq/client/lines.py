"""Own how the output of a process becomes lines of text; pure.

Each stream has its own decoder and its own unfinished line, so that characters and lines are whole however
the bytes were cut into events.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from execzmq.types.events import Closed, Event, Failed, Gap, Output, Stream


class LineSplitter:
    """Turns events into lines: UTF-8 with replacement, without their line ends."""

    def __init__(self) -> None:
        self._streams: dict[Stream, _StreamText] = {}

    def feed(self, event: Event) -> Iterator[str]:
        """Yield the lines that `event` completes; at the end also what has no line end.

        A `Gap` ends the unfinished lines and yields one line that says how many bytes are missing.
        """
        if isinstance(event, Output):
            text = self._streams.setdefault(event.stream, _StreamText())
            yield from text.feed(event.data)
        elif isinstance(event, Closed | Failed | Gap):
            yield from self.finish()
        if isinstance(event, Gap):
            yield f"[... {event.bytes} bytes lost ...]"

    def finish(self) -> Iterator[str]:
        """Yield what has no line end, and begin anew."""
        for text in self._streams.values():
            yield from text.finish()
        self._streams.clear()


class _StreamText:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished: list[str] = []  # joined once: a line may be as long as the output

    def feed(self, data: bytes) -> Iterator[str]:
        *complete, rest = self._decoder.decode(data).split("\n")
        for line in complete:
            self._unfinished.append(line)
            yield self._take()
        if rest:
            self._unfinished.append(rest)

    def finish(self) -> Iterator[str]:
        self._unfinished.append(self._decoder.decode(b"", final=True))
        if line := self._take():
            yield line

    def _take(self) -> str:
        line = "".join(self._unfinished).removesuffix("\r")
        self._unfinished.clear()
        return line
