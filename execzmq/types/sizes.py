"""Own how a person writes bytes (`1G`, `512M`, digits alone) and time (`8h`, `30m`, digits alone). Pure."""

from __future__ import annotations

import re
from fractions import Fraction

MOST = (1 << 62) - 1
"""Bytes, or what else is counted: the kernel takes no more."""

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)\Z", re.IGNORECASE)
_MEANT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
"""What is no size, but can be told how it is written as one: `1.5G`, `2 GB`, `64KiB`."""
_UNITS = "KMGT"
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_size(text: str) -> int:
    """Return the bytes that a text means; a unit is a power of 1,024.

    Raises:
        ValueError: it is no size.
    """
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no size: write {_as_size(text)}")
    found = int(match[1]) * _bytes_in(match[2])
    if found > MOST:
        raise ValueError(f"{text!r} is no size: it is more than any machine has")
    return found


def parse_duration(text: str) -> float:
    """Return the seconds that a text means; its unit is s, m, h or d.

    Raises:
        ValueError: it is no time.
    """
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no time: write seconds, or a number with s, m, h or d such as 8h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_count(text: str) -> int:
    """Return the number that a text means.

    Raises:
        ValueError: it is none, or negative.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def _as_size(text: str) -> str:
    """Return how what is meant is written, else what a size is."""
    match = _MEANT.match(text)
    found = Fraction(match[1]) * _bytes_in(match[2]) if match else Fraction(1, 2)
    if found.denominator != 1:
        return "bytes, or a whole number with K, M, G or T such as 512M"
    unit = max((unit for unit in _UNITS if found and found % _bytes_in(unit) == 0), key=_bytes_in, default="")
    return f"{found / _bytes_in(unit)}{unit} (units are powers of 1,024)" if unit else str(found)


def _bytes_in(unit: str) -> int:
    return 1 << 10 * (_UNITS.index(unit.upper()) + 1) if unit else 1
