"""Own what a backend without a server answers to whoever would share it, or asks whether that is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from execzmq.errors import InvalidState
from execzmq.types.sharing import ShareInfo, ShareTerms


class Unshared:
    """The part of `ExecBackend` that needs a server."""

    is_up = True

    def watch(self, changed: Callable[[], object]) -> None:
        """Do nothing: what is in this Python is never lost."""

    async def share(self, terms: ShareTerms, output: Path) -> ShareInfo:
        """Refuse to."""
        raise _no_server()

    async def shares(self) -> list[ShareInfo]:
        """Describe the shares: there are none."""
        return []

    async def revoke(self, share_id: str) -> None:
        """Refuse to."""
        raise _no_server()


def _no_server() -> InvalidState:
    return InvalidState("only a server can be shared: `execzmq.connect()` gives a client of one")
