"""Own how text with ANSI colours becomes HTML; pure.

What is not colour or weight is left out, and all text is escaped: it comes from programs that nobody trusts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_SEQUENCE = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_NAMED = ("#3e424d", "#d22f2f", "#00803f", "#9a6700", "#1668c4", "#9b2fae", "#0b7a85", "#8c8c8c")
_BRIGHT = ("#6b7080", "#e05252", "#1f9d55", "#b58105", "#3b8be0", "#b658c8", "#1f98a5", "#a9a9a9")
"""Sixteen colours that can be read on white as on black."""
_CUBE = (0, 95, 135, 175, 215, 255)


@dataclass(slots=True, frozen=True)
class Style:
    """How letters look; a colour is `#rrggbb`, `None` that of the page."""

    colour: str | None = None
    background: str | None = None
    is_bold: bool = False
    is_faint: bool = False
    is_italic: bool = False
    is_underlined: bool = False
    is_inverse: bool = False

    def css(self) -> str:
        """Return the style as declarations for a `style` attribute."""
        colour, background = self.colour, self.background
        if self.is_inverse:
            colour, background = background or "#ffffff", colour or "#3e424d"
        said = {
            "color": colour,
            "background-color": background,
            "font-weight": "bold" if self.is_bold else None,
            "opacity": "0.65" if self.is_faint else None,
            "font-style": "italic" if self.is_italic else None,
            "text-decoration": "underline" if self.is_underlined else None,
        }
        return ";".join(f"{name}:{value}" for name, value in said.items() if value)


def to_html(text: str) -> str:
    """Return text with ANSI colours as HTML whose styles are in the elements themselves."""
    return "".join(_span(part, style) for part, style in parts(text))


def to_plain(text: str) -> str:
    """Return text without escape sequences and control characters."""
    return "".join(part for part, _ in parts(text))


def parts(text: str) -> Iterator[tuple[str, Style]]:
    """Yield the text piece by piece, each with its style."""
    style, begin = Style(), 0
    for sequence in _SEQUENCE.finditer(text):
        if piece := _CONTROL.sub("", text[begin : sequence.start()]):
            yield piece, style
        begin = sequence.end()
        if sequence[1] is not None:
            style = _after(style, sequence[1])
    if piece := _CONTROL.sub("", text[begin:]):
        yield piece, style


def _span(text: str, style: Style) -> str:
    css, escaped = style.css(), html.escape(text)
    return f'<span style="{css}">{escaped}</span>' if css else escaped


def _after(style: Style, sequence: str) -> Style:
    """Return the style that a sequence of SGR codes leaves."""
    codes = [int(code[:9] or "0") for code in sequence.replace(":", ";").split(";")]
    at = 0
    while at < len(codes):
        if codes[at] in (38, 48):
            colour, used = _extended(codes[at + 1 :])
            style = replace(style, colour=colour) if codes[at] == 38 else replace(style, background=colour)
            at += used
        else:
            style = _simple(style, codes[at])
        at += 1
    return style


def _simple(style: Style, code: int) -> Style:
    if code in _FLAGS:
        return replace(style, **_FLAGS[code])
    if 30 <= code <= 37 or 90 <= code <= 97:
        return replace(style, colour=(_NAMED if code < 90 else _BRIGHT)[code % 10])
    if 40 <= code <= 47 or 100 <= code <= 107:
        return replace(style, background=(_NAMED if code < 100 else _BRIGHT)[code % 10])
    return Style() if code == 0 else style


_FLAGS: dict[int, dict[str, Any]] = {
    1: {"is_bold": True},
    2: {"is_faint": True},
    3: {"is_italic": True},
    4: {"is_underlined": True},
    7: {"is_inverse": True},
    22: {"is_bold": False, "is_faint": False},
    23: {"is_italic": False},
    24: {"is_underlined": False},
    27: {"is_inverse": False},
    39: {"colour": None},
    49: {"background": None},
}


def _extended(codes: list[int]) -> tuple[str | None, int]:
    """Return the colour that `5;n` or `2;r;g;b` names, and how many codes that took."""
    match codes:
        case [5, number, *_]:
            return _of_256(number), 2
        case [2, red, green, blue, *_]:
            return _rgb(red, green, blue), 4
    return None, len(codes)


def _of_256(number: int) -> str | None:
    if number < 16:
        return (*_NAMED, *_BRIGHT)[number]
    if number < 232:
        cube = number - 16
        return _rgb(_CUBE[cube // 36], _CUBE[cube // 6 % 6], _CUBE[cube % 6])
    return _rgb(*[8 + 10 * (number - 232)] * 3) if number < 256 else None


def _rgb(*parts: int) -> str | None:
    return "#" + "".join(f"{part:02x}" for part in parts) if max(parts) < 256 else None
