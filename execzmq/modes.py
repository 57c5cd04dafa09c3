"""Own what a program has set on a terminal besides the text: how it is set again, and how undone; pure."""

from __future__ import annotations

import re

_BESIDE = (
    rb"\x1b(?:\[\?(?P<numbers>[0-9;]{1,64})(?P<setting>[hl])"
    rb"|(?P<keypad>[=>])"
    rb"|(?P<reset>c|\[!p)"
    rb"|\[(?P<shape>[0-9]{0,2}) q"
    rb"|\][02];(?P<title>[^\x00-\x1f\x7f]{0,1024})(?:\x07|\x1b\\))"
)
_SEQUENCE_BESIDE = re.compile(_BESIDE)
_SEQUENCE = re.compile(_BESIDE + rb"|\x1b\[(?P<style>[0-9;:]{0,64})m|(?P<charset>\x1b\([0AB]|[\x0e\x0f])")
_UNFINISHED = re.compile(rb"\x1b(?:\[[\x20-\x3f]{0,64}|\(|\](?:[02](?:;[^\x00-\x1f\x7f]{0,1024}\x1b?)?)?)?\Z")
_LONGEST = 1032
"""Bytes of the longest sequence that is waited for."""

_UNDO: dict[int, tuple[bool, bytes]] = {
    1: (True, b"\x1b[?1l"),  # cursor keys
    5: (True, b"\x1b[?5l"),  # reversed colours
    6: (True, b"\x1b[?6l"),  # origin
    7: (False, b"\x1b[?7h"),  # wrapping
    9: (True, b"\x1b[?9l"),  # mouse, as are those of 1000 to 1016
    25: (False, b"\x1b[?25h"),  # cursor hidden
    47: (True, b"\x1b[?47l"),  # alternate screen, as 1047 and 1049
    66: (True, b"\x1b>"),  # keypad
    1000: (True, b"\x1b[?1000l"),
    1002: (True, b"\x1b[?1002l"),
    1003: (True, b"\x1b[?1003l"),
    1004: (True, b"\x1b[?1004l"),  # tells of focus
    1005: (True, b"\x1b[?1005l"),
    1006: (True, b"\x1b[?1006l"),
    1015: (True, b"\x1b[?1015l"),
    1016: (True, b"\x1b[?1016l"),
    1047: (True, b"\x1b[?1047l"),
    1049: (True, b"\x1b[?1049l"),
    2004: (True, b"\x1b[?2004l"),  # bracketed paste
    2026: (True, b"\x1b[?2026l"),  # held updates
}
"""Private mode → whether it is undone where it is set (else where it is reset), and by what."""

_ALTERNATE = frozenset((47, 1047, 1049))
_OF_THE_PICTURE = _ALTERNATE | {1, 6, 7, 25, 2026}
"""Modes that a picture of the screen brings with it, or that are over with the next update."""


def split_unfinished(data: bytes) -> tuple[bytes, bytes]:
    """Return what is whole of an output, and the sequence at its end that may go on."""
    unfinished = _UNFINISHED.search(data, max(len(data) - _LONGEST, 0))
    if unfinished is None:
        return data, b""
    return data[: unfinished.start()], unfinished[0]


class ScreenModes:
    """Follows a program's output and remembers what it has set.

    Args:
        undoes: whether `undo` is to be asked; otherwise colours and characters sets are not followed, which
            are what there is most of.
    """

    def __init__(self, *, undoes: bool = True) -> None:
        self._sequence = _SEQUENCE if undoes else _SEQUENCE_BESIDE
        self._modes: set[int] = set()
        self._styled = False
        self._charset = False
        self._shape = b""
        self._title = b""
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the output; sequences may be cut anywhere."""
        if self._rest:
            data = self._rest + data
        elif b"\x1b" not in data and b"\x0e" not in data:
            return
        whole, self._rest = split_unfinished(data)
        for match in self._sequence.finditer(whole):
            self._take(match)

    def undo(self) -> bytes:
        """Return what brings the screen back to how a shell expects it; nothing where nothing is changed."""
        parts = [_UNDO[mode][1] for mode in sorted(self._modes, key=lambda mode: (mode in _ALTERNATE, mode))]
        if self._shape:
            parts.insert(0, b"\x1b[0 q")
        if self._styled:
            parts.insert(0, b"\x1b[m")
        if self._charset:
            parts.insert(0, b"\x0f\x1b(B")
        return b"".join(parts)

    def beside_the_picture(self) -> bytes:
        """Return what sets again what no picture of the screen shows: mouse, paste, keypad, cursor, title."""
        parts = [
            b"\x1b=" if mode == 66 else b"\x1b[?%dh" % mode for mode in sorted(self._modes - _OF_THE_PICTURE)
        ]
        if self._shape:
            parts.append(b"\x1b[%s q" % self._shape)
        if self._title:
            parts.append(b"\x1b]2;%s\x07" % self._title)
        return b"".join(parts)

    def _take(self, match: re.Match[bytes]) -> None:
        kind = match.lastgroup
        value = match[kind] if kind is not None else b""
        if kind == "setting":
            for number in match["numbers"].split(b";"):
                self._switch(int(number or b"0"), value == b"h")
        elif kind == "reset":
            self._modes.clear()
            self._styled = self._charset = False
            self._shape = b""
        elif kind == "keypad":
            self._switch(66, value == b"=")
        elif kind == "style":
            self._styled = value.strip(b"0;") != b""
        elif kind == "charset":
            self._charset = value in (b"\x1b(0", b"\x0e")
        elif kind == "shape":
            self._shape = value.lstrip(b"0")
        else:
            self._title = value

    def _switch(self, mode: int, is_set: bool) -> None:
        if mode in _UNDO:
            (self._modes.add if is_set == _UNDO[mode][0] else self._modes.discard)(mode)
