"""Own what carriage returns leave to be seen of a text: of a progress bar its last state; pure."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_RETURNS = re.compile(r"\r{2,}")
_ERASES = re.compile(r"\x1b\[[012]?K")


class Overwriting:
    """Leaves out of one stream's text, piece by piece, what is overwritten before anyone sees it.

    What it returns, put together, shows the same as the whole text would.

    Attributes:
        lines: that have ended.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._finished = 0  # characters of the lines that have ended
        self._width = self._column = 0  # of the unfinished line, and where its next character goes
        self._kept_before = self._kept = 0  # of the same, with what is not seen

    @property
    def seen(self) -> int:
        """How many characters are to be seen of all that was returned so far."""
        return self._finished + self._width

    @property
    def kept(self) -> int:
        """How many characters there are where these are seen, with colours and all else that is not."""
        return self._kept_before + self._kept

    def feed(self, text: str) -> str:
        """Return what of the next piece is to be written."""
        *complete, rest = text.split("\n")
        pieces = []
        for line in complete:
            pieces.append(self._line(line.rstrip("\r")))
            self._end_line()
        pieces.append(self._line(rest))
        return "\n".join(pieces)

    def _end_line(self) -> None:
        self._finished += self._width + 1
        self._kept_before += self._kept + 1
        self._kept = 0
        self.lines += 1
        self._width = self._column = 0

    def _line(self, text: str) -> str:
        """Return what is to be written of a part of one line."""
        first, *others = _RETURNS.sub("\r", text).split("\r")
        kept = [(first, self._column + _visible(first))]
        for segment in others:
            reach = _visible(segment)
            while segment and kept and (reach >= kept[-1][1] or _ERASES.search(segment)):
                kept.pop()
            kept.append((segment, reach))
        is_overwritten = kept[0][0] is not first
        for segment, reach in kept:
            self._overwrite(segment, reach, begin=self._column if segment is first else 0)
        self._column = kept[-1][1]
        return "\r" * is_overwritten + "\r".join(segment for segment, _ in kept)

    def _overwrite(self, segment: str, reach: int, begin: int) -> None:
        erases = _ERASES.search(segment) is not None
        is_all = begin == 0 and (erases or 0 < reach >= self._width)
        self._kept = 1 + len(segment) + (0 if is_all else self._kept)
        self._width = reach if erases else max(self._width, reach)


def last_state(line: str) -> str:
    """Return what is seen of a line when all of it is written."""
    segments = [segment for segment in line.split("\r") if segment]
    shown = segments[0] if segments else ""
    for segment in segments[1:]:
        is_plain = "\x1b" not in segment and "\x1b" not in shown
        shown = segment + shown[len(segment) :] if is_plain else segment
    return shown


def _visible(text: str) -> int:
    """Return about how many columns a text takes."""
    return len(_ESCAPE.sub("", text) if "\x1b" in text else text)
