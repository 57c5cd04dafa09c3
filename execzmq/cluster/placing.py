"""Own how a command gets its place: a ticket at the scheduler, a task that holds a slot, the first offer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from distributed import Future

from execzmq.cluster.dask import Dask
from execzmq.cluster.scheduling import PREFIX
from execzmq.cluster.tickets import taken
from execzmq.cluster.working import Offer, Work, hold_slot
from execzmq.errors import ClientClosed, Conflict, ConnectionFailed, ExecZMQError

_GOODBYE = 5.0
"""Seconds for the scheduler to take the last words."""


class Placer:
    """Finds places for the commands of one client.

    Args:
        name: of the cluster's servers.
        on_over: told the id of a command whose slot is held no more.
    """

    def __init__(self, dask: Dask, name: str, on_over: Callable[[str], object]) -> None:
        self._dask = dask
        self._name = name
        self._on_over = on_over
        self._client = f"{dask.id}/{secrets.token_hex(4)}"  # the scheduler tells of the end of a Dask client
        self._waiting: dict[str, asyncio.Future[Offer]] = {}
        self._slots: dict[str, Future[Any]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._revision = 0

    def is_waiting(self, process_id: str) -> bool:
        """Tell whether a command has no place yet."""
        return process_id in self._waiting

    def statistics(self) -> dict[str, int]:
        """Return how many commands wait for a place, and how many hold one."""
        waiting = sum(process_id in self._slots for process_id in self._waiting)
        return {"waiting": waiting, "running": len(self._slots) - waiting}

    async def place(self, process_id: str, resources: Mapping[str, float] | None) -> Offer:
        """Wait for the first offer of a worker that has the resources free, and holds them from now on.

        Tell `started` afterwards, or `give_up`. Cancelled, it wants no place any more.

        Raises:
            Conflict: the id has one already. ConnectionFailed: the scheduler is gone, or has no place.
        """
        if process_id in self._waiting or process_id in self._slots:
            raise taken(process_id)
        waiting: asyncio.Future[Offer] = asyncio.get_running_loop().create_future()
        self._waiting[process_id] = waiting
        try:
            await self._dask.ask("open", process_id=process_id, client=self._client)
            self._slots[process_id] = self._dask.submit(
                PREFIX + process_id, resources, hold_slot, Work(process_id, self._name)
            )
            if self._listening is None or self._listening.done():
                self._listening = asyncio.create_task(self._listen())
            return await waiting
        except Conflict:
            raise  # the ticket is another's
        except BaseException:
            self.give_up(process_id)
            raise
        finally:
            del self._waiting[process_id]

    def started(self, process_id: str) -> None:
        """Tell that the command runs at its place, or may do so: the slot is held as long as it does."""
        self._tell(self._dask.ask("started", process_id=process_id))

    def give_up(self, process_id: str) -> None:
        """Tell that the command was not started, and will not be."""
        self._slots.pop(process_id, None)
        self._tell(self._dask.ask("drop", process_ids=[process_id]))

    async def aclose(self) -> None:
        """Look for no more places; idempotent. Slots of commands that run stay held."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.wait((listening,))
        self._fail_all(ClientClosed("the client is closed"))
        if self._telling:
            await asyncio.wait(self._telling, timeout=_GOODBYE)
        self._slots.clear()

    async def _listen(self) -> None:
        """Hear what becomes of the tickets, as long as there are some."""
        try:
            while self._slots:
                news = await self._dask.ask("changes", client=self._client, after=self._revision)
                self._revision = news["revision"]
                for ticket in news["tickets"]:
                    self._hear(ticket)
                if not news["tickets"]:
                    self._look()
        except ExecZMQError as error:
            self._fail_all(error)

    def _look(self) -> None:
        """Find the tasks that Dask has dropped on their way to the scheduler, as it may at a restart."""
        for process_id in list(self._waiting):
            slot = self._slots.get(process_id)
            if slot is not None and slot.status == "cancelled":
                self._hear({"process_id": process_id, "state": "over", "problem": "cancelled"})

    def _hear(self, ticket: dict[str, Any]) -> None:
        process_id, state = ticket["process_id"], ticket["state"]
        waiting = self._waiting.get(process_id)
        if state == "offered" and waiting is not None and not waiting.done():
            waiting.set_result(cast(Offer, ticket["offer"]))
        elif state == "over":
            if waiting is not None and not waiting.done():
                problem = ticket["problem"] or "its task has ended"
                waiting.set_exception(
                    ConnectionFailed(f"the cluster has no place for the command: {problem}")
                )
            self.give_up(process_id)

    def _fail_all(self, error: ExecZMQError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    def _tell(self, word: Coroutine[Any, Any, Any]) -> None:
        async def tell() -> None:
            with contextlib.suppress(ExecZMQError):  # a scheduler that is gone has forgotten all of it
                await word

        task = asyncio.create_task(tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
