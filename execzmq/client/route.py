"""Own what a client needs to know of the way by which a server's sockets come here from another machine."""

from __future__ import annotations

from typing import Protocol


class Route(Protocol):
    """A way that is open, as far as is known."""

    @property
    def problem(self) -> str:
        """Say why it is broken at the moment; empty where that is not known."""

    async def aclose(self) -> None:
        """End it; idempotent."""
