"""Own how things look in listings: names that may be any bytes, sizes, ages, tables; pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

_GAP = "  "


def readable(data: bytes) -> str:
    """Return bytes as text; what is not UTF-8 becomes `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Return text on one line that moves no cursor: what cannot be printed is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def command_line(argv: Sequence[bytes]) -> str:
    """Return a command as one would type it."""
    return printable(shlex.join(readable(word) for word in argv))


def size(count: int) -> str:
    """Return a count of bytes in at most four digits."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(seconds: float) -> str:
    """Return a duration by its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def clock(seconds: float) -> str:
    """Return a processor time as `top` does: minutes, seconds and hundredths; with hours from one hour on."""
    minutes, rest = divmod(max(seconds, 0.0), 60)
    if minutes < 60:
        return f"{minutes:.0f}:{int(rest):02}.{int(rest * 100) % 100:02}"
    return f"{minutes // 60:.0f}:{minutes % 60:02.0f}:{int(rest):02}"


def table(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return aligned lines, the first row being the heads; lines longer than `width` are cut at their end."""
    columns = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = [
        _GAP.join(cell.ljust(room) for cell, room in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [line if width is None or len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def plain(value: Any) -> Any:
    """Return a value of ours as what JSON knows."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, bytes):
        return readable(value)
    if isinstance(value, dict):
        return {str(plain(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
