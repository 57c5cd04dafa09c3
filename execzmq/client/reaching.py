"""Own the one backend of a client: it is opened at the first use, and how it stands with it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from execzmq.errors import ClientClosed, InvalidState
from execzmq.types.backend import ExecBackend

State: TypeAlias = Literal["idle", "connecting", "connected", "lost", "failed", "closed"]
Watcher: TypeAlias = Callable[[State], object]


class Reach:
    """A backend that is opened when it is needed, once for all who need it meanwhile.

    Args:
        open: returns the backend, which is owned from then on; called again after it has failed.
    """

    def __init__(self, open: Callable[[], Awaitable[ExecBackend]]) -> None:
        self._open = open
        self._backend: ExecBackend | None = None
        self._opening: asyncio.Task[ExecBackend] | None = None
        self._waiting = 0
        self._has_failed = self._is_closed = False
        self._told: State = "idle"
        self._watchers: dict[object, Watcher] = {}

    @classmethod
    def of(cls, backend: ExecBackend) -> Reach:
        """Return what has a backend already; owned from now on."""

        async def given() -> ExecBackend:
            return backend

        reach = cls(given)
        reach._backend, reach._told = backend, "connected"
        backend.watch(reach._changed)
        return reach

    @property
    def state(self) -> State:
        """Tell how it stands, as far as has been noticed; on any thread."""
        if self._is_closed:
            return "closed"
        if self._backend is not None:
            return "connected" if self._backend.is_up else "lost"
        if self._opening is not None:
            return "connecting"
        return "failed" if self._has_failed else "idle"

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with each new state, on the loop; return what ends that."""
        key = object()
        self._watchers[key] = watcher
        return lambda: self._watchers.pop(key, None) and None

    @property
    def backend(self) -> ExecBackend:
        """Return the backend that was opened.

        Raises:
            ClientClosed: it is closed. InvalidState: it was not opened yet.
        """
        self._require_open()
        if self._backend is None:
            raise InvalidState("this client is not connected yet: its first use connects it, or connect()")
        return self._backend

    async def reach(self) -> ExecBackend:
        """Return the backend, opened now where it is not; cancelled by all who wait, nothing is left.

        Raises:
            ClientClosed: it is closed. What opening it raises.
        """
        self._require_open()
        if self._backend is not None:
            return self._backend
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._begin())
            self._changed()
        return await self._wait_for(self._opening)

    def refuse(self) -> bool:
        """Let nobody use it any more; return whether anybody could."""
        was_open, self._is_closed = not self._is_closed, True
        return was_open

    async def aclose(self) -> None:
        """Close the backend, or end the opening; idempotent."""
        self.refuse()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait((self._opening,))
        if self._backend is not None:
            await self._backend.aclose()
        self._changed()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed")

    async def _begin(self) -> ExecBackend:
        try:
            self._backend = await self._open()
            self._backend.watch(self._changed)
            return self._backend
        except Exception:
            self._has_failed = True
            raise
        finally:
            self._opening = None
            self._changed()

    async def _wait_for(self, opening: asyncio.Task[ExecBackend]) -> ExecBackend:
        self._waiting += 1
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and self._is_closed:
                raise ClientClosed("the client was closed while it connected") from None
            raise
        finally:
            self._waiting -= 1
            if not self._waiting and not opening.done():
                opening.cancel()
                await asyncio.wait((opening,))

    def _changed(self) -> None:
        """Tell whoever watches, where the state is another one than was told."""
        now = self.state
        if now == self._told:
            return
        self._told = now
        for watcher in tuple(self._watchers.values()):
            asyncio.get_running_loop().call_soon(watcher, now)
