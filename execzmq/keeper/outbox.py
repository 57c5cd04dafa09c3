"""The sending half of the server's end: packets go at once, or wait for room without a task.

Owns its timer and the copies of descriptors that wait. It must not know what a packet says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from execzmq.keeper.channel import Channel

_RETRY_SECONDS = 0.001


class Outbox:
    """Send now, or as soon as there is room."""

    def __init__(self, channel: Channel, on_broken: Callable[[Exception], None]) -> None:
        self._channel = channel
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def send(self, body: bytes, fds: Sequence[int]) -> None:
        """Send a packet; what cannot go at once goes with copies of its descriptors.

        Raises:
            ConnectionError: the connection has ended.
            OSError: the packet cannot be sent (a descriptor is closed, or none is free); others can.
        """
        if self._channel.try_send(body, fds):
            return
        copies = [os.dup(fd) for fd in fds]
        self._channel.send_later(lambda: (body, copies), copies)
        if self._timer is None:
            self._timer = self._loop.call_later(_RETRY_SECONDS, self._flush)

    async def wait_empty(self) -> None:
        """Wait until nothing waits to be sent, or nothing will be sent any more."""
        while self._timer is not None:
            if self._emptied is None:
                self._emptied = self._loop.create_future()
            await asyncio.wait((self._emptied,))

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._empty()

    def _empty(self) -> None:
        self._timer = None
        emptied, self._emptied = self._emptied, None
        if emptied is not None:
            emptied.set_result(None)

    def _flush(self) -> None:
        try:
            flushed = self._channel.flush()
        except ConnectionError as exc:
            self._empty()
            self._on_broken(exc)
            return
        except OSError:
            # No descriptor or memory is free for a large body now: it keeps its place.
            flushed = False
        if flushed:
            self._empty()
        else:
            self._timer = self._loop.call_later(_RETRY_SECONDS, self._flush)
