"""Own how a person writes a number of bytes: `1G`, `512M`, `64K`, or digits alone. Pure."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)\Z", re.IGNORECASE)
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


def parse_count(text: str) -> int:
    """Return the number that a text means.

    Raises:
        ValueError: it is none, or negative.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text!r} is no whole number of 0 or more")
    return int(text)
