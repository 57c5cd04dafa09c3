"""Own the picture of a terminal that no emulator follows: where in its past it begins, what is left out.

Pure. The one fallback of `screen`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LIMIT = 64 * 1024
"""Bytes of the past that are shown at most."""

CLEAR = re.compile(rb"\x1bc|\x1b\[[23]J|\x1b\[H\x1b\[0?J|\x1b\[\?(?:47|1047|1049)h")
"""What clears a screen, so that nothing from before shows any more."""

# A terminal answers these. The answer would be typed into the command, which did not ask just now.
_QUERY = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*[cnx]"  # attributes, status, parameters
    rb"|\x1b\[\??[0-9;]*\$p"  # modes
    rb"|\x1b\[>[0-9;]*q|\x1b\[\?u"  # version, keyboard
    rb"|\x1b\[(?:1[1-9]|2[01])(?:;[0-9]+)*t"  # window
    rb"|\x1b\][0-9]+;(?:[0-9]+;)?\?(?:\x07|\x1b\\)"  # colours
    rb"|\x1b\]52;[^\x07\x1b]*(?:\x07|\x1b\\)"  # clipboard
    rb"|\x1bP[+$]q[^\x1b]*\x1b\\"  # capabilities, settings
    rb"|\x1bZ|\x05"
)
_CUT = re.compile(rb"\A[\x80-\xbf]{1,3}")


@dataclass(slots=True, frozen=True)
class Picture:
    """What brings a terminal's screen to how it is now.

    Args:
        data: what to write to it; holds no question that it would answer.
        is_cut: something from before is missing, so that the picture may have holes.
    """

    data: bytes
    is_cut: bool


def picture(past: bytes, *, is_cut: bool) -> Picture:
    """Return the picture that a terminal's past output leaves.

    Args:
        past: the newest bytes; what the last cleared screen is in them begins the picture.
        is_cut: bytes before `past` are left out.
    """
    starts = [match.start() for match in CLEAR.finditer(past)]
    if starts:
        past, is_cut = past[starts[-1] :], False
    elif is_cut:
        end_of_line = past.find(b"\n", 0, 3 * len(past) // 4)  # else little would be left
        past = past[end_of_line + 1 :] if end_of_line >= 0 else _CUT.sub(b"", past)
    return Picture(_QUERY.sub(b"", past), is_cut)
