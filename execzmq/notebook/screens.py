"""Own how output looks in a page and in a terminal: capped and at intervals there, as it comes here."""

from __future__ import annotations

import codecs
import uuid
from typing import Protocol

from execzmq.notebook import places
from execzmq.notebook.capping import Capped, Pace
from execzmq.notebook.outlets import Outlet
from execzmq.types.events import Output, Stream


class Screen(Protocol):
    """Shows the output of one process; used by one thread."""

    @property
    def can_skip(self) -> bool:
        """Whether output that comes faster than it is shown may be left out."""

    def feed(self, event: Output) -> None:
        """Take output."""

    def say(self, text: str) -> None:
        """Take a line of ours."""

    def left(self, now: float) -> float | None:
        """Return the seconds until something is to be shown; `None` where nothing is."""

    def show(self, now: float) -> None:
        """Show what there is."""

    def finish(self, now: float) -> None:
        """Show what is left: nothing follows."""

    def skip(self) -> None:
        """Take note that output was left out."""


class PageScreen:
    """A cell of a notebook.

    Args:
        outlet: of the process.
        how_to_read: one line that tells how to read what is not shown.
    """

    def __init__(self, outlet: Outlet, how_to_read: str) -> None:
        self._outlet = outlet
        self._how_to_read = how_to_read
        self._capped = Capped()
        self._pace = Pace()
        self._display_id = ""

    @property
    def can_skip(self) -> bool:
        return self._capped.tail is not None

    def feed(self, event: Output) -> None:
        self._capped.feed(event.stream, event.offset, event.data)

    def say(self, text: str) -> None:
        self._capped.say(text)

    def left(self, now: float) -> float | None:
        return self._pace.left(now) if self._capped.is_waiting else None

    def show(self, now: float) -> None:
        for stream, text in self._capped.take():
            self._outlet.write(stream, text)
        if self._capped.tail is not None and self._capped.tail.is_new:
            self._show_tail(self._capped.tail.text(f"{self._capped.total:,} bytes held: {self._how_to_read}"))
        self._pace.wrote(now, slowly=self._capped.is_slow)

    def finish(self, now: float) -> None:
        self._capped.finish()
        self.show(now)

    def skip(self) -> None:
        self._capped.skip()

    def _show_tail(self, text: str) -> None:
        is_new = not self._display_id
        self._display_id = self._display_id or f"execzmq-{uuid.uuid4().hex}"
        (places.show if is_new else places.update)({"text/plain": text}, self._display_id)


class TerminalScreen:
    """IPython's own terminal, which scrolls: all of the output, as it comes.

    Args:
        outlet: of the process.
    """

    can_skip = False

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {}

    def feed(self, event: Output) -> None:
        decoder = self._decoders.get(event.stream)
        if decoder is None:
            decoder = self._decoders[event.stream] = codecs.getincrementaldecoder("utf-8")("replace")
        if text := decoder.decode(event.data):
            self._outlet.write(event.stream, text)

    def say(self, text: str) -> None:
        self._outlet.write("stderr", f"{text}\n")

    def left(self, now: float) -> float | None:
        return None

    def show(self, now: float) -> None:
        pass

    def finish(self, now: float) -> None:
        for stream, decoder in self._decoders.items():
            if text := decoder.decode(b"", final=True):
                self._outlet.write(stream, text)
        self._decoders.clear()

    def skip(self) -> None:
        raise AssertionError("a terminal is shown everything")


class NoScreen:
    """A terminal of the page, which shows the output by itself; how far it has come is told at intervals."""

    can_skip = True

    def __init__(self) -> None:
        self._pace = Pace()
        self._is_waiting = False

    def feed(self, event: Output) -> None:
        self._is_waiting = True

    def say(self, text: str) -> None:
        pass

    def left(self, now: float) -> float | None:
        return self._pace.left(now) if self._is_waiting else None

    def show(self, now: float) -> None:
        self._is_waiting = False
        self._pace.wrote(now, slowly=False)

    def finish(self, now: float) -> None:
        pass

    def skip(self) -> None:
        pass
