"""Own how much output may be on its way to one page: only what the page has rendered makes room; pure.

A window belongs to one page alone. A page that has died, or was never quick, fills its own and holds up
neither anybody else's nor the process.
"""

from __future__ import annotations

WINDOW = 512 * 1024
"""Bytes that may be on their way, or wait in the page to be rendered."""
CHUNK = 128 * 1024
"""Bytes of output in one message at most: of a flood the messages cost front ends more than the bytes."""
INTERVAL = 0.03
"""Seconds between two messages with output: a Jupyter server cuts off who sends 1,000 messages a second."""


class AckWindow:
    """What one page was sent and has rendered, in bytes since the last `restart`.

    Args:
        window: bytes that may be unacknowledged.
        chunk: bytes of one message at most.
        interval: least seconds between two messages.

    Attributes:
        sent: bytes that were sent.
        rendered: those of them that the page has rendered.
    """

    def __init__(self, *, window: int = WINDOW, chunk: int = CHUNK, interval: float = INTERVAL) -> None:
        self._window = window
        self._chunk = chunk
        self._interval = interval
        self._next_at = float("-inf")
        self.sent = 0
        self.rendered = 0

    @property
    def room(self) -> int:
        """Bytes that the next message may carry: a whole chunk or, until the page has rendered more, none."""
        return self._chunk if self.sent - self.rendered + self._chunk <= self._window else 0

    def wait(self, now: float) -> float:
        """Return the seconds until the next message may be sent, where there is room."""
        return max(self._next_at - now, 0.0)

    def add(self, size: int, now: float) -> None:
        """Note that a message with `size` bytes of output was sent."""
        self.sent += size
        self._next_at = now + self._interval

    def acknowledge(self, total: int) -> None:
        """Note that the page has rendered `total` bytes; what cannot be true counts as far as it can be."""
        self.rendered = max(self.rendered, min(total, self.sent))

    def restart(self) -> None:
        """Count anew: the page forgets what it was sent. The pace is kept."""
        self.sent = self.rendered = 0
