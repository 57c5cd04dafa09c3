"""Own what a terminal's screen shows after some output, by a terminal emulator; no loop, no log, no clock.

Whatever is fed, neither memory nor the time for a piece of `piece` bytes passes a bound.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from unicodedata import east_asian_width

from execzmq.modes import ScreenModes, split_unfinished
from execzmq.process.guess import CLEAR
from execzmq.settings import SCREEN_COLS, SCREEN_ROWS

if TYPE_CHECKING:
    from avt import Vt  # type: ignore[attr-defined]  # it has no stubs

T = TypeVar("T")

_MOST_WRAPPED = 20_000
"""Lines into which a screen is wrapped at most when it becomes narrower."""
_CELLS_A_PIECE = 4096 * 2000
_LEAST_PIECE, _MOST_PIECE = 16, 4096

_ESC_REPEAT = re.compile(rb"(\x1b[\x00-\x17\x19\x1c-\x1f\x7f]*\[)([\x00-\x17\x19\x1c-\x3f\x7f]*)b")
_CSI = b"\xc2\x9b"
_CSI_REPEAT = re.compile(rb"(\xc2\x9b)([\x00-\x17\x19\x1c-\x3f\x7f]*)b")
_CANCEL = "\x18"
_ALTERNATE = "\x9b?1047h"
_SWITCH = "\x1b[?1049h\x1b[4l\x1b[20l\x0f\x1b(B\x1b[?7h\x1b[?6l\x1b[r\x1b[m\x1b[2J"
"""What changes to an alternate screen on which nothing is set."""
_C1 = str.maketrans({chr(0x80 + code - 0x40): f"\x1b{chr(code)}" for code in range(0x40, 0x60)})
_TOKEN = re.compile(
    r"\x1b\[[0-9;:]*m|\r\n|([^\x1b\r\n])\x1b\[([0-9]+)b|\x1b\[[^@-~]*[@-~]?|\x1b.?|[^\x1b\r\n]", re.DOTALL
)
_AT_THE_END = "\x1b[m"
"""What ends the text of a screen in a dump."""
_SAVED_BELOW = re.compile(r"\x1b7((?:\x1b\[[?0-9;]*[hlmr])*)\x1b\[\?1047h")


class EmulatorBroken(Exception):
    """The emulator has failed; what it holds is worth nothing."""


class Emulator:
    """A terminal without a window.

    Args:
        rows, cols: its size; each at least 1.

    Attributes:
        is_cut: something of what it shows may be missing.

    Raises:
        ImportError: there is none on this machine.
    """

    def __init__(self, rows: int, cols: int) -> None:
        from avt import Vt  # type: ignore[attr-defined]  # as above

        self.rows, self.cols = min(rows, SCREEN_ROWS), min(cols, SCREEN_COLS)
        self._is_larger = (self.rows, self.cols) != (rows, cols)
        self._has_lost = False
        self._modes = ScreenModes(undoes=False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = b""
        self._vt: Vt = _unbroken(lambda: Vt(self.cols, self.rows, 0))

    @property
    def is_cut(self) -> bool:
        """Tell whether something of what it shows may be missing."""
        return self._is_larger or self._has_lost

    @property
    def piece(self) -> int:
        """Return the bytes that are fed at a time: some sequences cost as much as the screen is large."""
        return max(_LEAST_PIECE, min(_MOST_PIECE, _CELLS_A_PIECE // (self.rows * self.cols)))

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the output; characters and sequences may be cut anywhere."""
        whole, self._rest = split_unfinished(self._rest + data)
        if not whole:
            return
        self._modes.feed(whole)
        if self._has_lost and CLEAR.search(whole):
            self._has_lost = False
        text = self._decoder.decode(self._with_bounded_repeats(whole))
        _unbroken(lambda: self._vt.feed_str(text))

    def resize(self, rows: int, cols: int) -> None:
        """Have another size from here on; a large one goes blank where it would become very narrow."""
        from avt import Vt  # type: ignore[attr-defined]  # as above

        cells = self.rows * self.cols
        self.rows, self.cols = min(rows, SCREEN_ROWS), min(cols, SCREEN_COLS)
        self._is_larger = (self.rows, self.cols) != (rows, cols)
        if cells > _MOST_WRAPPED * self.cols:
            self._has_lost = True
            self._vt = _unbroken(lambda: Vt(self.cols, self.rows, 0))
        else:
            self._vt = _unbroken(lambda: _resized(self._vt, self.rows, self.cols))

    def lose(self) -> None:
        """Go on where some output is missing."""
        self._has_lost, self._rest = True, b""
        self._decoder.reset()
        _unbroken(lambda: self._vt.feed_str(_CANCEL))

    def picture(self) -> bytes:
        """Return what brings an empty terminal of this size to show the same, and to take the same output."""
        picture = tidy(_unbroken(self._vt.dump), self.cols)
        unfinished = self._decoder.getstate()[0] + self._rest
        return self._modes.beside_the_picture() + picture.encode("utf-8", "replace") + unfinished

    def _with_bounded_repeats(self, data: bytes) -> bytes:
        if _CSI in data:
            data = _CSI_REPEAT.sub(self._bounded, data)
        return _ESC_REPEAT.sub(self._bounded, data)

    def _bounded(self, match: re.Match[bytes]) -> bytes:
        """Return a repetition that leaves the same screen and repeats no more than fills it."""
        text, all_of_it = match[2], (self.rows + 1) * self.cols
        if not text.isdigit():
            return match[0] if not text else b""
        count = int(text[:9])
        left = count if count <= all_of_it else all_of_it + count % self.cols
        return b"%s%db" % (match[1], left)


def tidy(dump: str, cols: int) -> str:
    """Return the dump of an emulator as every terminal understands it: without 8-bit controls and repeats.

    Blanks at the ends of lines are left out: a window that is narrower would wrap them. Those of a line that
    goes over several rows of `cols` columns stay, since they may be a row of their own.
    """
    parts: list[str] = []
    width, blanks, is_plain = 0, 0, True
    for match in _TOKEN.finditer(dump.translate(_C1)):
        token = match[0]
        if token[0] not in "\r\x1b":
            text = match[1] * (int(match[2]) + 1) if match[1] else token
            width += len(text) * (2 if east_asian_width(text[0]) in "WF" else 1)
            if is_plain and text[0] == " ":
                blanks += len(text)
            else:
                parts.append(" " * blanks + text)
                blanks = 0
            continue
        is_style = token.startswith("\x1b[") and token.endswith("m")
        if width > cols or (is_style and token != _AT_THE_END):
            parts.append(" " * blanks)
        if is_style:
            is_plain = token in (_AT_THE_END, "\x1b[0m")
        elif token == "\r\n":
            width = 0
        blanks = 0
        parts.append(token)
    return _with_known_switch("".join(parts))


def _with_known_switch(picture: str) -> str:
    """Return a picture that changes to the alternate screen in the one way that all terminals know."""
    fresh = "\x1b[m\x1b[2J"
    picture, count = _SAVED_BELOW.subn(lambda match: f"\x1b[?1049h{match[1]}{fresh}", picture)
    return picture if count else picture.replace("\x1b[?1047h", f"\x1b[H\x1b[?1049h{fresh}")


def _resized(vt: Vt, rows: int, cols: int) -> Vt:
    """Return the emulator in another size.

    By itself it gives a screen below the alternate one its size when that is left, and no dump until then has
    the cursor in its place there.
    """
    from avt import Vt  # type: ignore[attr-defined]  # as above

    before, below = vt.dump(), Vt(*vt.size, 0)
    vt.resize(cols, rows)
    if _ALTERNATE not in before:
        return vt
    below.feed_str(f"{before}{_CANCEL}\x1b[?1049l")
    below.resize(cols, rows)
    both = Vt(cols, rows, 0)
    both.feed_str(below.dump() + _SWITCH + vt.dump().partition(_ALTERNATE)[2])
    return both


def _unbroken(work: Callable[[], T]) -> T:
    """Do what the emulator may fail at.

    Raises:
        EmulatorBroken: it did.
    """
    try:
        return work()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception, and has no name to import
            raise
        raise EmulatorBroken(str(error)) from None
