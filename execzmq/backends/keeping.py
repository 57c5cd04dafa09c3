"""Own the backend's keeper: connects to it, gets another when it dies, ends it with the backend.

Knows nothing of tables and logs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from execzmq.errors import ConnectionFailed, InvalidState
from execzmq.keeper.client import (
    KeeperClient,
    KeeperLost,
    KeeperRefused,
    KeeperStartError,
    Mode,
    SpawnedProcess,
)
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.roster import ExitCallback

log = logging.getLogger("execzmq.backends")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries to have another keeper."""
_QUIT_SECONDS = 5.0
"""Seconds within which a keeper that has no commands has ended when it is asked to."""


class Keeping:
    """The keeper of one state folder.

    Args:
        mode: what becomes of its commands when this process ends: `keep` or `end`.
        on_exit: called with key, status (None where nobody knows it) and resource usage of each command that
            ends.
        on_lost: called when the keeper has died.
        on_replaced: run when there is another, which has none of the commands of the dead one; returns how
            many it got.
        on_pid: called with the process id of each keeper.
    """

    def __init__(
        self,
        folder: Path,
        mode: Mode,
        *,
        on_exit: ExitCallback,
        on_lost: Callable[[], None],
        on_replaced: Callable[[KeeperClient], Coroutine[Any, Any, int]],
        on_pid: Callable[[int], None],
    ) -> None:
        self._folder = folder
        self._mode = mode
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._on_replaced = on_replaced
        self._on_pid = on_pid
        self._client: KeeperClient | None = None
        self._replacing: asyncio.Task[None] | None = None

    @property
    def client(self) -> KeeperClient:
        """Return the client of the keeper; after its death that of the dead one, until there is another.

        Raises:
            InvalidState: there is none (any more).
        """
        if self._client is None:
            raise InvalidState("this backend is closed; open another")
        return self._client

    @property
    def is_connected(self) -> bool:
        """Tell whether the keeper has been connected and not been closed."""
        return self._client is not None

    async def connect(self, found: Callable[[SpawnedProcess], None]) -> None:
        """Connect to the keeper that is there, else to a new one; `found` is told of each command it has.

        Raises:
            ConnectionFailed: it does not serve this process or does not answer, or none can be started.
        """
        try:
            self._client = await KeeperClient.connect_or_launch(
                self._folder, self._mode, on_process=found, on_exit=self._on_exit, on_lost=self._lost
            )
        except (KeeperRefused, KeeperStartError, KeeperLost) as error:
            raise ConnectionFailed(f"no keeper for {self._folder}: {error}") from error
        self._on_pid(self._client.pid)

    async def close(self, *, keeps: bool) -> None:
        """End the keeper, unless it `keeps` commands or streams for the next server. Idempotent.

        One that does not answer is killed: it has no commands, and one that is left would answer no next
        server either.
        """
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait([self._replacing])
        client, self._client = self._client, None
        if client is None:
            return
        if not keeps:
            await _end(client)
        await client.aclose()

    def _lost(self) -> None:
        if self._client is not None:
            log.warning("the keeper, pid %d, has died: another one is started", self._client.pid)
        self._on_lost()
        self._replacing = asyncio.ensure_future(self._replace(self._replacing))

    async def _replace(self, before: asyncio.Task[None] | None) -> None:
        """Get another keeper, however long that takes; what starts meanwhile fails with ServerLost."""
        if before is not None:
            await before  # the keeper that it has got may be the one that has died
        dead, pause = self._client, _FIRST_PAUSE
        while True:
            try:
                await self.connect(lambda process: process.close())
                break
            except (ConnectionFailed, OSError) as error:
                log.error("the keeper has died and there is no other yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        count = await self._on_replaced(self.client)
        log.warning("another keeper, pid %d, has taken over: it holds %s", self.client.pid, _words(count))
        if dead is not None:
            await dead.aclose()


def _words(count: int) -> str:
    return f"{count} command" if count == 1 else f"{count} commands"


async def _end(client: KeeperClient) -> None:
    try:
        async with asyncio.timeout(_QUIT_SECONDS):
            await client.quit()
    except (SpawnError, KeeperLost):
        pass
    except TimeoutError:
        log.warning("the keeper, pid %d, does not answer and has no commands: it is killed", client.pid)
        client.kill()
