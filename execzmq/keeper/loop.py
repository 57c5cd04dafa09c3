"""The keeper's loop: who is called when a descriptor has something to say.

Owns no descriptor. It must not know what they are.
"""

from __future__ import annotations

import select
from collections.abc import Callable


class Loop:
    """Call back for descriptors that can be read, or have ended."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._fresh: set[int] = set()
        self._is_over = False

    def watch(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back for a descriptor until `unwatch`, which must come before it is closed."""
        self._callbacks[fd] = callback
        self._fresh.add(fd)
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Call back no more; one that is not watched is no error."""
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def serve(self, seconds: float | None) -> None:
        """Wait for events, no longer than `seconds`, and serve them; those that are left here come again."""
        self._fresh.clear()
        self._is_over = False
        for fd, _ in self._poll.poll(None if seconds is None else 1000 * seconds):
            if self._is_over:
                return
            # The number of a descriptor that has been closed since may be another's now.
            callback = None if fd in self._fresh else self._callbacks.get(fd)
            if callback is not None:
                callback()

    def interrupt(self) -> None:
        """Serve none of the events that are left in this turn."""
        self._is_over = True
