"""Own what of a terminal's past a newcomer is shown: where in the log it begins, what is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from execzmq.types.events import Gap, Output

if TYPE_CHECKING:
    from execzmq.types.backend import ExecProcess
    from execzmq.types.results import ProcessInfo

LIMIT = 64 * 1024
"""Bytes of the past that are shown at most."""

_CLEAR = re.compile(rb"\x1bc|\x1b\[[23]J|\x1b\[H\x1b\[0?J|\x1b\[\?(?:47|1047|1049)h")

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
    starts = [match.start() for match in _CLEAR.finditer(past)]
    if starts:
        past, is_cut = past[starts[-1] :], False
    elif is_cut:
        end_of_line = past.find(b"\n")
        past = past[end_of_line + 1 :] if end_of_line >= 0 else _CUT.sub(b"", past)
    return Picture(_QUERY.sub(b"", past), is_cut)


async def picture_of(process: ExecProcess, info: ProcessInfo) -> tuple[Picture, int]:
    """Return the picture of a process's terminal and the seq after which the live output goes on."""
    seq = await beginning(process, info)
    is_cut, past = seq > 0, bytearray()
    while seq < info.last_seq:
        page = await process.read(seq)
        for event in page.chunks:
            if isinstance(event, Output):
                past += event.data
            elif isinstance(event, Gap):
                is_cut, past = True, bytearray()
        if page.next_seq <= seq:
            break
        seq = page.next_seq
    return picture(bytes(past[-LIMIT:]), is_cut=is_cut or len(past) > LIMIT), seq


async def beginning(process: ExecProcess, info: ProcessInfo, limit: int = LIMIT) -> int:
    """Return the seq after which at least the newest `limit` bytes of stdout come, by few small reads."""
    wanted = info.output_bytes.get("stdout", 0) - limit
    if wanted <= 0:
        return 0
    low, high = 0, info.last_seq  # what follows `low` begins at or before `wanted`
    while high - low > 1:
        middle = (low + high) // 2
        offset = await _offset_after(process, middle)
        if offset is not None and offset <= wanted:
            low = middle
        else:
            high = middle
    return low


async def _offset_after(process: ExecProcess, seq: int) -> int | None:
    """Return the offset of the first output of stdout after `seq`, `None` where none follows soon."""
    page = await process.read(seq, 1)
    for event in page.chunks:
        if isinstance(event, Output) and event.stream == "stdout":
            return event.offset
    return None
