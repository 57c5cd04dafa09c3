"""Own how a person writes bytes (`1G`, `512M`, digits alone) and time (`8h`, `30m`, digits alone). Pure."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)\Z", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Return the bytes that a text means; a unit is a power of 1,024.

    Raises:
        ValueError: it is no size.
    """
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no size: write bytes, or a number with K, M, G or T such as 512M")
    return int(match[1]) << 10 * _POWERS[match[2].upper()]


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
