"""Own what a program has set on a terminal's screen and how that is undone; pure."""

from __future__ import annotations

import re

_PRIVATE = re.compile(rb"\x1b\[\?([0-9;]{1,64})([hl])")
_OTHER = re.compile(rb"\x1b([=>c])|\x1b\[!p|\x1b\[([0-9;]{0,64})m|\x1b\([0AB]|[\x0e\x0f]")
_UNFINISHED = re.compile(rb"\x1b(?:\[[?!>=]?[0-9;]{0,64}|\()?\Z")

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


class ScreenModes:
    """Follows a program's output and remembers what would be left behind if it ended now."""

    def __init__(self) -> None:
        self._modes: set[int] = set()
        self._styled = False
        self._charset = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the output; sequences may be cut anywhere."""
        if self._rest:
            data = self._rest + data
        elif b"\x1b" not in data and b"\x0e" not in data:
            return
        unfinished = _UNFINISHED.search(data, max(len(data) - 80, 0))
        self._rest = unfinished[0] if unfinished else b""
        whole = data[: len(data) - len(self._rest)]
        for match in re.finditer(_PRIVATE.pattern + b"|" + _OTHER.pattern, whole):
            self._take(match)

    def undo(self) -> bytes:
        """Return what brings the screen back to how a shell expects it; nothing where nothing is changed."""
        parts = [_UNDO[mode][1] for mode in sorted(self._modes, key=lambda mode: (mode in _ALTERNATE, mode))]
        if self._styled:
            parts.insert(0, b"\x1b[m")
        if self._charset:
            parts.insert(0, b"\x0f\x1b(B")
        return b"".join(parts)

    def _take(self, match: re.Match[bytes]) -> None:
        numbers, setting, letter, style = match.groups()
        text = match[0]
        if numbers is not None:
            for number in numbers.split(b";"):
                self._switch(int(number or b"0"), setting == b"h")
        elif letter == b"c" or text == b"\x1b[!p":
            self._modes.clear()
            self._styled = self._charset = False
        elif letter is not None:
            self._switch(66, letter == b"=")
        elif style is not None:
            self._styled = style.strip(b"0;") != b""
        else:
            self._charset = text in (b"\x1b(0", b"\x0e")

    def _switch(self, mode: int, is_set: bool) -> None:
        if mode in _UNDO:
            (self._modes.add if is_set == _UNDO[mode][0] else self._modes.discard)(mode)
