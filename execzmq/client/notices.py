"""Own what a person is told of a notice, in one line; pure."""

from __future__ import annotations

import re

from execzmq.types.events import Notice


def words_of(process_id: str, event: Notice, *, listing: str) -> str | None:
    """Return the line, `None` for what is not meant for people.

    Args:
        listing: what can let a host through, as whoever reads this knows it.
    """
    data = event.data
    if event.kind == "resized":
        return None  # whose screen it is sees it
    if event.kind == "degraded":
        reason = re.sub(r"^\[Errno \d+\] ", "", str(data.get("text") or "no reason"))
        return f"{process_id}: the disk takes nothing, output is held in memory ({reason})"
    if event.kind == "recovered":
        lost = data.get("dropped_bytes")
        return f"{process_id}: the disk takes output again{f'; {lost:,} bytes were lost' if lost else ''}"
    if event.kind == "network_denied":
        host = f"{data.get('host')}:{data.get('port')}"
        can_be_listed = data.get("reason") == "not listed"
        cure = f"; {listing} can allow it" if can_be_listed else ", whatever is allowed"
        return f"{process_id}: its sandbox may not reach {host} ({data.get('reason')}){cure}"
    return f"{process_id}: {event.kind} {data}"
