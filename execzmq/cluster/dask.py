"""Own how a Dask client is used from a loop that need not be its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from distributed import Client, Future

from execzmq.errors import ClientClosed, ConnectionFailed, from_wire

T = TypeVar("T")

_AT_ONCE = 16
"""Questions that are under way: each has a connection to the scheduler, and more wait here."""
ANSWER_SECONDS = 10.0
"""Seconds for a worker to answer what is no command."""


class Dask:
    """A Dask client, blocking or not; whoever made it closes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking = asyncio.Semaphore(_AT_ONCE)

    @property
    def id(self) -> str:
        """Return what the scheduler calls this client."""
        return str(self._client.id)

    @property
    def address(self) -> str:
        """Return where the scheduler is."""
        scheduler = self._client.scheduler
        return "" if scheduler is None else str(scheduler.address)

    @property
    def is_up(self) -> bool:
        """Tell whether the client is connected, as far as it has noticed."""
        return str(self._client.status) == "running"

    async def register(self, plugin: Any) -> None:
        """Have a plugin on the cluster, if it is not there.

        Raises:
            ConnectionFailed: the scheduler is gone. Any error of the plugin's.
        """
        await self._there(lambda: self._client.register_plugin(plugin))

    async def identity(self) -> dict[str, Any]:
        """Return what the scheduler says of itself and its workers."""
        return dict(await self._there(lambda: self._scheduler().identity()))

    async def ask(self, method: str, **fields: Any) -> dict[str, Any]:
        """Ask our part of the scheduler.

        Raises:
            ConnectionFailed: the scheduler is gone. Conflict: as it says.
        """
        async with self._asking:
            answer = await self._there(lambda: getattr(self._scheduler(), f"execzmq_{method}")(**fields))
        if answer and "ename" in answer:
            raise from_wire(answer)
        return dict(answer or {})

    async def run(self, workers: list[str], function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run a function on some workers, besides their tasks; return what those answer that do in time."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answers = await self._there(
                    lambda: self._client.run(function, *args, workers=workers, on_error="ignore")
                )
        except TimeoutError:
            return []
        return list(answers.values())

    def submit(
        self, key: str, resources: Mapping[str, float] | None, function: Callable[..., Any], *args: Any
    ) -> Future[Any]:
        """Have a task run where its resources are free; hold what is returned as long as it shall run."""
        return self._client.submit(function, *args, key=key, resources=resources, pure=False)

    def _scheduler(self) -> Any:
        return self._client.scheduler

    def _loop(self) -> Any:
        assert self._client.loop is not None
        return self._client.loop.asyncio_loop  # type: ignore[attr-defined]  # tornado's face of it

    async def _there(self, work: Callable[[], Awaitable[T]]) -> T:
        """Call a function on the client's own loop and await there what it returns."""
        if self._client.status in ("closed", "closing"):
            raise ClientClosed("the Dask client is closed: connect again with another one")

        async def working() -> T:
            return await work()

        loop: asyncio.AbstractEventLoop = self._loop()
        try:
            if loop is asyncio.get_running_loop():
                return await working()
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(working(), loop))
        except OSError as error:
            raise ConnectionFailed(f"the scheduler of the Dask cluster does not answer: {error}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ClientClosed(
                "the Dask client was closed meanwhile: connect again with another one"
            ) from None
