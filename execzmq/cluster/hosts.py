"""Own a client's connections to the servers of a cluster's hosts: one each, made when it is needed."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from execzmq import connection
from execzmq.client.remote import RemoteBackend
from execzmq.client.sharing import new_keys
from execzmq.cluster.dask import Dask
from execzmq.cluster.working import Offer, admit, describe
from execzmq.connection import ConnectionInfo, share_id_of
from execzmq.errors import ConnectionFailed, ExecZMQError, from_wire

_GOODBYE = 1.0
"""Seconds for the answer to the last word."""


@dataclass(slots=True, frozen=True)
class Host:
    """One host of a cluster.

    Args:
        offer: what a worker has said of it.
        backend: its server.
        share_id: of the share by which this client is let in; empty on its own host.
    """

    offer: Offer
    backend: RemoteBackend
    share_id: str = ""

    @property
    def id(self) -> str:
        """Return what its server is told by."""
        return self.offer["server"]

    @property
    def name(self) -> str:
        """Return the name of the host."""
        return self.offer["host"]

    async def aclose(self) -> None:
        """Give the share back, if the server is there, and close the connection."""
        if self.share_id and self.backend.is_up:
            with contextlib.suppress(ExecZMQError, TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self.backend.revoke(self.share_id)
        await self.backend.aclose()


class Hosts:
    """The hosts that a client knows.

    Args:
        name: of their servers.
        is_used: tells whether a server must be kept, though its host seems to have gone.
    """

    def __init__(self, dask: Dask, name: str, is_used: Callable[[str], bool]) -> None:
        self._dask = dask
        self._name = name
        self._is_used = is_used
        self._opening: dict[str, asyncio.Task[Host]] = {}

    async def of(self, offer: Offer) -> Host:
        """Return the host that a worker has spoken of; connect to its server if that is to be done.

        Raises:
            ConnectionFailed, AuthenticationFailed, RequestTimeout: it cannot be reached.
        """
        opening = self._opening.get(offer["server"])
        if opening is None:
            opening = self._opening[offer["server"]] = asyncio.create_task(self._open(offer))
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening.get(offer["server"]) is opening:
                del self._opening[offer["server"]]  # who asks next tries again
            raise

    async def all(self) -> list[Host]:
        """Return the hosts that have workers now, and warn of those that cannot be reached.

        Raises:
            ConnectionFailed: the scheduler does not answer.
        """
        offers = await self._offers()
        await self._drop_all_but(offers)
        found = await asyncio.gather(*map(self.of, offers.values()), return_exceptions=True)
        for offer, host in zip(offers.values(), found, strict=True):
            if isinstance(host, BaseException):
                _warn(offer["host"], host)
        return [host for host in found if isinstance(host, Host)]

    async def aclose(self) -> None:
        """Close all connections; idempotent."""
        opening, self._opening = self._opening, {}
        await _close(opening.values())

    async def _open(self, offer: Offer) -> Host:
        info = await self._info(offer)
        share_id = share_id_of(info.curve_publickey) if info.curve_publickey else ""
        backend = await RemoteBackend.open(info)
        backend.name_host(offer["host"])
        return Host(offer, backend, share_id)

    async def _info(self, offer: Offer) -> ConnectionInfo:
        """Return how to reach a server: by its file on this host, else by tcp with keys of this client's."""
        if offer["place"] == connection.host_id():
            with contextlib.suppress(ConnectionFailed):  # it may be another user's, who runs the cluster
                return connection.load(offer["file"])
        publickey, secretkey = new_keys()
        answers: list[dict[str, Any]] = await self._dask.run([offer["worker"]], admit, self._name, publickey)
        if not answers:
            raise ConnectionFailed(f"the worker {offer['worker']} of {offer['host']} does not answer")
        if "error" in answers[0]:
            raise from_wire(answers[0]["error"])
        return ConnectionInfo(**{**answers[0], "curve_secretkey": secretkey})

    async def _offers(self) -> dict[str, Offer]:
        """Return what one worker of each host says of it, by the ids of the servers."""
        workers: dict[str, list[str]] = {}
        for address, about in (await self._dask.identity())["workers"].items():
            workers.setdefault(about["host"], []).append(address)
        answers = await asyncio.gather(*(self._ask(host, those) for host, those in workers.items()))
        return {offer["server"]: offer for offers in answers for offer in offers}

    async def _ask(self, host: str, workers: list[str]) -> list[Offer]:
        answers: list[dict[str, Any]] = await self._dask.run(workers, describe, self._name)
        offers = [cast(Offer, answer) for answer in answers if "error" not in answer]
        if not offers:
            _warn(host, ConnectionFailed("none of its workers answers, or it has no exec server"))
        return offers

    async def _drop_all_but(self, offers: Iterable[str]) -> None:
        """Close the connections to servers that are no more: the cluster has let their hosts go."""
        gone = [
            id
            for id, opening in self._opening.items()
            if id not in offers and not self._is_used(id) and _is_down(opening)
        ]
        await _close([self._opening.pop(id) for id in gone])


def _is_down(opening: asyncio.Task[Host]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or not opening.result().backend.is_up


async def _close(opening: Iterable[asyncio.Task[Host]]) -> None:
    for task in opening:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled() and task.exception() is None:
            await task.result().aclose()


def _warn(host: str, error: BaseException) -> None:
    warnings.warn(f"host {host} is left out: {error}", RuntimeWarning, stacklevel=3)
