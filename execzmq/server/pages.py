"""Own the pages of logs that are on their way: their form, and how many bytes of them a client may hold up.

A client names in each `read` and `lease` the reads that it still waits for; pages for all others count as
taken.
"""

from __future__ import annotations

import asyncio
from typing import Any

from execzmq.process import payloads
from execzmq.process.log import Dropped, LogPage
from execzmq.settings import PAGES_PER_CLIENT, PAGES_TOTAL, SMALL_PAGE


def entries_of(page: LogPage) -> list[list[Any]]:
    """Return the `events` of a reply; output is the next `length` bytes of the page's buffer."""
    return [_entry(entry, page) for entry in page.entries]


def _entry(entry: Any, page: LogPage) -> list[Any]:
    if isinstance(entry, Dropped):
        return ["gap", entry.from_seq, 0.0, entry.to_seq, entry.bytes]
    if entry.kind == "output":
        return ["output", entry.seq, entry.time, entry.stream, entry.offset, entry.length]
    payload = payloads.decode(page.payloads.get(entry.seq, b""))
    if entry.kind == "started":
        return ["started", entry.seq, entry.time, payload.get("pid", 0)]
    if entry.kind == "notice":
        return ["notice", entry.seq, entry.time, payload.get("kind", ""), payload.get("data", {})]
    return [entry.kind, entry.seq, entry.time, payload]


class PagesInFlight:
    """Bytes of pages per client session that nobody has said to have received."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = {}
        self._total = 0
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    def open_reads(self, session: str, still_open: list[str]) -> None:
        """Count every page as taken whose read the session does not wait for any more."""
        sizes = self._sizes.get(session)
        if not sizes:
            return
        kept = {msg_id: sizes[msg_id] for msg_id in still_open if msg_id in sizes}
        self._total -= sum(sizes.values()) - sum(kept.values())
        if kept:
            self._sizes[session] = kept
        else:
            del self._sizes[session]
        for waiter in self._waiters.pop(session, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def wait_room(self, session: str, seconds: float) -> None:
        """Return when the session has taken a page, or after `seconds`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(session, []).append(waiter)
        await asyncio.wait([waiter], timeout=seconds)

    def size_for(self, wanted: int) -> int:
        """Return how large the next page may be, so that many readers together do not fill the memory."""
        return wanted if self._total + wanted <= PAGES_TOTAL else min(wanted, SMALL_PAGE)

    def has_room(self, session: str, size: int) -> bool:
        """Tell whether a page of `size` bytes may be sent; one alone always may."""
        held = sum(self._sizes.get(session, {}).values())
        return not held or held + size <= PAGES_PER_CLIENT

    def sent(self, session: str, msg_id: str, size: int) -> None:
        """Note a page that was sent as the answer to `msg_id`."""
        if size:
            self._sizes.setdefault(session, {})[msg_id] = size
            self._total += size

    def forget(self, session: str) -> None:
        """Drop what is known of a session that is gone."""
        self._total -= sum(self._sizes.pop(session, {}).values())
        self._waiters.pop(session, None)
