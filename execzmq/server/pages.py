"""Own the pages of logs that are on their way: their form, and how many bytes of them a client may hold up.

Two things are counted. A client names in each `read` and `lease` the reads that it still waits for; pages for
all others count as taken: that spares the client's memory, and is believed. What a page costs this server is
seen, whatever a client says: its bytes are kept until ZeroMQ has handed them on, and are gone then.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

from execzmq.process import payloads
from execzmq.process.log import Dropped, LogPage
from execzmq.settings import PAGES_PER_CLIENT, PAGES_TOTAL, SMALL_PAGE


def entries_of(page: LogPage) -> list[list[Any]]:
    """Return the `events` of a reply; output is the next `length` bytes of the page's buffer."""
    return [_entry(entry, page) for entry in page.entries]


def _entry(entry: Any, page: LogPage) -> list[Any]:
    if isinstance(entry, Dropped):
        return ["gap", entry.from_seq, entry.time, entry.to_seq, entry.bytes]
    if entry.kind == "output":
        return ["output", entry.seq, entry.time, entry.stream, entry.offset, entry.length]
    payload = payloads.decode(page.payloads.get(entry.seq, b""))
    if entry.kind == "started":
        return ["started", entry.seq, entry.time, payload.get("pid", 0)]
    if entry.kind == "notice":
        return ["notice", entry.seq, entry.time, payload.get("kind", ""), payload.get("data", {})]
    return [entry.kind, entry.seq, entry.time, payload]


class PagesInFlight:
    """Bytes of pages that a client session has not said to have received, and those that are still kept."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = {}
        self._kept: dict[bytes, int] = {}
        self._total = 0
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    def open_reads(self, session: str, still_open: list[str]) -> None:
        """Count every page as taken whose read the session does not wait for any more."""
        sizes = self._sizes.get(session)
        if not sizes:
            return
        kept = {msg_id: sizes[msg_id] for msg_id in still_open if msg_id in sizes}
        if kept:
            self._sizes[session] = kept
        else:
            del self._sizes[session]
        self._wake(session)

    async def wait_room(self, session: str, seconds: float) -> None:
        """Return when the session has taken a page, or after `seconds`."""
        waiter = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(session, [])
        waiters.append(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            waiters.remove(waiter)
            if not waiters and self._waiters.get(session) is waiters:
                del self._waiters[session]

    def room_for(self, session: str, connection: bytes, wanted: int) -> int:
        """Return how many bytes, at most `wanted`, the next page may have; 0 where it has to wait.

        One page alone may always go out, though a small one where those of all clients fill the memory.
        """
        told = sum(self._sizes.get(session, {}).values())
        if told and told + wanted > PAGES_PER_CLIENT:
            return 0
        if self._total + wanted <= PAGES_TOTAL:
            return wanted
        return 0 if connection in self._kept else min(wanted, SMALL_PAGE)

    def sent(self, session: str, connection: bytes, msg_id: str, page: memoryview) -> None:
        """Note a page that is sent as the answer to `msg_id`; it is kept for as long as `page` lives."""
        size = len(page)
        self._sizes.setdefault(session, {})[msg_id] = size
        self._kept[connection] = self._kept.get(connection, 0) + size
        self._total += size
        loop = asyncio.get_running_loop()
        weakref.finalize(page, self._gone, loop, session, connection, size).atexit = False

    def forget(self, session: str) -> None:
        """Drop what is known of a session that is gone."""
        self._sizes.pop(session, None)
        self._waiters.pop(session, None)

    def _gone(self, loop: asyncio.AbstractEventLoop, session: str, connection: bytes, size: int) -> None:
        """Take note in the loop: a page ends in the thread of ZeroMQ's that was done with it last."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._release, session, connection, size)

    def _release(self, session: str, connection: bytes, size: int) -> None:
        self._total -= size
        self._kept[connection] -= size
        if not self._kept[connection]:
            del self._kept[connection]
        self._wake(session)

    def _wake(self, session: str) -> None:
        for waiter in self._waiters.pop(session, ()):
            if not waiter.done():
                waiter.set_result(None)
