"""Own the server of one host of a cluster: found, started, held and, where it dies, started again.

All nannies of a host hold one server, whose name comes from the scheduler's id. It ends when none holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from execzmq import connection
from execzmq.client import launch
from execzmq.connection import ConnectionInfo
from execzmq.errors import ConnectionFailed, ExecZMQError
from execzmq.holders import Hold

log = logging.getLogger("execzmq.cluster")

END_SECONDS = 15.0
"""Seconds for which the last nanny of a host waits for the end of its server."""
_AGAIN = 1.0
_TRIES = 5
_DASK_OWN = b"DASK_INTERNAL_"
"""Variables that Dask hands its workers; its whole configuration is in one, secrets among it."""


def name_of(scheduler_id: str) -> str:
    """Return the name that the servers of a cluster have."""
    return "dask-" + hashlib.sha256(scheduler_id.encode()).hexdigest()[:16]


def id_here(name: str, info: ConnectionInfo) -> str:
    """Return what tells the servers of a cluster apart.

    All who see one agree on it, and its lives have the same; one that begins anew, when all of its host's
    nannies had gone, has another, as it has other keys.
    """
    made = os.stat(_pipe(name))
    words = f"{info.hostname} {info.host} {info.ip} {made.st_ino} {made.st_mtime_ns}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def connection_file(name: str) -> Path:
    """Return where the connection file of this host's server is."""
    return connection.state_folder(name) / "connection.json"


def here(name: str) -> ConnectionInfo:
    """Return how to reach the server of this host.

    Raises:
        ConnectionFailed: there is none.
    """
    info = launch.running(name)
    if info is None:
        raise ConnectionFailed(f"no exec server of this cluster runs on {os.uname().nodename}")
    return info


class HostServer:
    """The hold of one nanny on the server of its host. `open` it on the nanny's loop, then `aclose` it.

    Args:
        name: of the server.
        options: further ones of `serve`, where it must be started.
    """

    def __init__(self, name: str, options: Sequence[str] = ()) -> None:
        self._name = name
        self._options = tuple(options)
        self._hold: Hold | None = None
        self._changing = threading.Lock()  # of the hold, by a thread that nobody waits for any more
        self._is_closed = False
        self._opening: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Hold the server, and start it where none runs; return when it is ready, whoever called first.

        Raises:
            ConnectionFailed, RequestTimeout: it could not be started.
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def aclose(self) -> None:
        """Hold it no more; where nobody does any longer, wait for its end. Idempotent."""
        for task in (self._opening, self._keeping):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,))
        info = launch.running(self._name)
        if await asyncio.to_thread(self._let_go) and info is not None:
            await _ended(info.pid, END_SECONDS)

    async def _open(self) -> None:
        info = await asyncio.to_thread(self._ensure)
        self._keeping = asyncio.create_task(self._keep(info))

    def _ensure(self) -> ConnectionInfo:
        path = _pipe(self._name)
        with self._changing:
            for _ in range(_TRIES):
                if self._is_closed:
                    break
                if (info := self._try(path)) is not None:
                    return info
        raise ConnectionFailed(f"servers named {self._name!r} come and go; look into {path.parent}")

    def _try(self, path: Path) -> ConnectionInfo | None:
        """Hold the server, started where it does not run; `None` where one that ends took the pipe along."""
        if self._hold is None:
            connection.private_folder(path.parent)
            try:
                self._hold = Hold(path)
            except FileNotFoundError:
                return None
        info = None
        try:
            info = launch.ensure_default(self._name, self._words(path), _variables())
        except ConnectionFailed:
            if self._hold.is_whole(path):
                raise
        if self._hold.is_whole(path):
            return info
        self._hold.close()
        self._hold = None
        return None

    def _let_go(self) -> bool:
        """Hold it no more, once a start that is under way has ended; return whether nobody else does."""
        self._is_closed = True
        with self._changing:
            hold, self._hold = self._hold, None
            return hold is not None and hold.let_go()

    def _words(self, path: Path) -> tuple[str, ...]:
        return ("--while-held", str(path), *self._options)

    async def _keep(self, info: ConnectionInfo) -> None:
        """Put another server in the place of one that has died: its commands go on, their watchers too."""
        while True:
            await _ended(info.pid)
            before = info.pid
            try:
                info = await asyncio.to_thread(self._ensure)
            except (ExecZMQError, OSError) as error:
                log.warning("the exec server of this host is gone and cannot be started again: %s", error)
            if info.pid == before:
                await asyncio.sleep(_AGAIN)


def _pipe(name: str) -> Path:
    return connection.state_folder(name) / "holders"


def _variables() -> dict[bytes, bytes]:
    """Return the variables of the nanny's that commands get: what Dask's tasks would have, too."""
    return {name: value for name, value in os.environb.items() if not name.startswith(_DASK_OWN)}


async def _ended(pid: int, seconds: float | None = None) -> None:
    """Wait until a process that is no child of this one has ended, or the time is over."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
