"""Lives of a backend that follow each other in one state folder."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from execzmq.backends.local import LocalBackend
from execzmq.settings import Settings


async def open_backend(folder: Path) -> LocalBackend:
    """Begin one life."""
    return await LocalBackend.open(folder, Settings(shutdown_grace=0.0))


@contextlib.asynccontextmanager
async def life(folder: Path) -> AsyncIterator[LocalBackend]:
    """One life that leaves its commands to the next."""
    backend = await open_backend(folder)
    try:
        yield backend
    finally:
        await backend.aclose()


@contextlib.asynccontextmanager
async def last_life(folder: Path) -> AsyncIterator[LocalBackend]:
    """The last life of a test, which ends everything."""
    backend = await open_backend(folder)
    try:
        yield backend
    finally:
        await backend.shutdown()
