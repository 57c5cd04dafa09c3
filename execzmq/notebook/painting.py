"""Own how a terminal's screen is put down for good: as coloured HTML and as ANSI text; pure.

The HTML carries its colours with it and needs no style sheet, so that it is the same in a reopened notebook, in
an export and on a code host. The colours are for the background `BACKGROUND`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from avt import Cell, Line, Pen

BACKGROUND, FOREGROUND = "#1e2227", "#d7dae0"
"""Colours of what has none of its own."""
# fmt: off
_SIXTEEN = (
    "#3b4048", "#e06c75", "#98c379", "#d8b26e", "#61a5ee", "#c678dd", "#56b6c2", "#c8ccd4",
    "#6b7280", "#ff8087", "#b5e890", "#f2cf8a", "#82c0ff", "#e29af5", "#7fdbe6", "#ffffff",
)
# fmt: on
_LEVELS = (0, 95, 135, 175, 215, 255)

Colour: TypeAlias = int | tuple[int, int, int] | None
"""One of 256 by its number, red, green and blue, or that of the terminal."""


@dataclass(slots=True, frozen=True)
class Style:
    """How characters look."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: bool = False
    strikethrough: bool = False
    inverse: bool = False


@dataclass(slots=True, frozen=True)
class Run:
    """Characters of one line that look the same."""

    text: str
    style: Style


Painting: TypeAlias = list[list[Run]]
"""The lines of a screen."""


def painting_of(picture: bytes, rows: int, cols: int) -> Painting | None:
    """Return what an empty terminal of this size shows after `picture`.

    Blank ends of lines and blank last lines are left out. `None` = this machine has no terminal emulator, or
    it has failed.
    """
    try:
        from avt import Vt

        vt = Vt(cols, rows, 0)
        vt.feed_str(picture.decode("utf-8", "replace"))
        lines = [_line(line) for line in vt.view()]
    except ImportError:
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception, and has no name to import
            raise
        return None
    while lines and not lines[-1]:
        lines.pop()
    return lines


def as_html(painting: Painting) -> str:
    """Return the lines as text with coloured spans, for within a `pre` of `FOREGROUND` on `BACKGROUND`."""
    return "\n".join("".join(map(_span, line)) for line in painting)


def as_ansi(painting: Painting) -> str:
    """Return the lines as text with SGR sequences."""
    return "\n".join("".join(map(_sequence, line)) for line in painting)


def as_text(painting: Painting) -> str:
    """Return the lines without their looks."""
    return "\n".join("".join(run.text for run in line) for line in painting)


def _line(line: Line) -> list[Run]:
    cells = ((cell.char, _style(cell.pen)) for cell in _filled(line.cells))
    runs = groupby(cells, key=lambda cell: cell[1])
    return [Run("".join(char for char, _ in run), style) for style, run in runs]


def _filled(cells: list[Cell]) -> Iterable[Cell]:
    """Return the cells up to the last that shows something; the second half of a wide character is none."""
    end = len(cells)
    while end and cells[end - 1].is_default():
        end -= 1
    return (cell for cell in cells[:end] if cell.width > 0)


def _style(pen: Pen) -> Style:
    if pen.is_default():
        return Style()
    return Style(
        _colour(pen.foreground),
        _colour(pen.background),
        pen.bold,
        pen.faint,
        pen.italic,
        pen.underline,
        pen.strikethrough,
        pen.inverse,
    )


def _colour(colour: object) -> Colour:
    from avt import Color

    if isinstance(colour, Color.Indexed):
        return colour[0]
    return (colour[0], colour[1], colour[2]) if isinstance(colour, Color.RGB) else None


def _span(run: Run) -> str:
    css = ";".join(_declarations(run.style))
    text = html.escape(run.text, quote=False)
    return f'<span style="{css}">{text}</span>' if css else text


def _declarations(style: Style) -> Iterable[str]:
    front, back = _css(style.foreground), _css(style.background)
    if style.inverse:
        front, back = back or BACKGROUND, front or FOREGROUND
    if front:
        yield f"color:{front}"
    if back:
        yield f"background:{back}"
    if style.bold:
        yield "font-weight:bold"
    if style.faint:
        yield "opacity:0.6"
    if style.italic:
        yield "font-style:italic"
    lines = [
        name for name, on in (("underline", style.underline), ("line-through", style.strikethrough)) if on
    ]
    if lines:
        yield f"text-decoration:{' '.join(lines)}"


def _css(colour: Colour) -> str:
    if colour is None:
        return ""
    if isinstance(colour, tuple):
        return "#{:02x}{:02x}{:02x}".format(*colour)
    if colour < 16:
        return _SIXTEEN[colour]
    if colour < 232:
        rest = colour - 16
        return _css((_LEVELS[rest // 36], _LEVELS[rest // 6 % 6], _LEVELS[rest % 6]))
    return _css((8 + 10 * (colour - 232),) * 3)


def _sequence(run: Run) -> str:
    codes = ";".join(_codes(run.style))
    return f"\x1b[{codes}m{run.text}\x1b[0m" if codes else run.text


def _codes(style: Style) -> Iterable[str]:
    flags = (style.bold, style.faint, style.italic, style.underline, style.inverse, style.strikethrough)
    yield from (code for code, on in zip("123479", flags, strict=True) if on)
    yield from _colour_codes(style.foreground, 30, 90)
    yield from _colour_codes(style.background, 40, 100)


def _colour_codes(colour: Colour, first: int, first_bright: int) -> Iterable[str]:
    if isinstance(colour, tuple):
        yield f"{first + 8};2;{colour[0]};{colour[1]};{colour[2]}"
    elif colour is not None:
        named = first + colour if colour < 8 else first_bright + colour - 8
        yield str(named) if colour < 16 else f"{first + 8};5;{colour}"
