"""Own the backend of a whole cluster: `ExecBackend` over the servers of its hosts."""

from __future__ import annotations

import asyncio
import secrets
import string
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from execzmq.client.remote import RemoteProcess
from execzmq.cluster.dask import Dask
from execzmq.cluster.hosting import name_of
from execzmq.cluster.hosts import Host, Hosts
from execzmq.cluster.placing import Placer
from execzmq.cluster.plugins import ExecServer, NoNannyServer
from execzmq.cluster.scheduling import Placements
from execzmq.cluster.working import Offer
from execzmq.connection import check_name
from execzmq.errors import ConnectionFailed, ExecZMQError, InvalidState, ProcessNotFound
from execzmq.settings import VERSION
from execzmq.types.params import EnvPolicy, ExecParams
from execzmq.types.results import ProcessInfo, ProfileInfo, ServerInfo
from execzmq.types.sharing import ShareInfo, ShareTerms

Ender = Callable[[], Awaitable[object]]
_ALPHABET = string.ascii_letters + string.digits


@dataclass(slots=True, frozen=True)
class Placed:
    """A process and where it runs."""

    host: str
    process: RemoteProcess


class ClusterBackend:
    """The hosts of a Dask cluster, as one place; see `ExecBackend`. Made by `open`."""

    is_local = False

    def __init__(self, dask: Dask, about: Mapping[str, Any], on_close: Ender | None) -> None:
        self._dask = dask
        self._on_close = on_close
        self._about = about
        self._name = name_of(about["id"])
        self._placed: dict[str, Host] = {}
        self._hosts = Hosts(dask, self._name, self._is_used)
        self._placer = Placer(dask, self._name, lambda process_id: self._placed.pop(process_id, None))
        self._prefix = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        self._processes = 0
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    async def open(cls, dask: Dask, *, start: bool = True, on_close: Ender | None = None) -> ClusterBackend:
        """Connect.

        Args:
            start: have a server on each host of the cluster, and those to come.
            on_close: what else ends with the backend.

        Raises:
            ConnectionFailed: the scheduler does not answer, or a host cannot start its server.
        """
        about = await dask.identity()
        if start:
            await dask.register(Placements())
            await dask.register(ExecServer())
            await dask.register(NoNannyServer())
        return cls(dask, about, on_close)

    @property
    def name(self) -> str:
        """Return the name of the servers of its hosts."""
        return self._name

    @property
    def is_up(self) -> bool:
        """Tell whether the Dask client is connected, as far as it has noticed."""
        return self._dask.is_up

    def watch(self, changed: Callable[[], object]) -> None:
        """Do nothing: a Dask client tells nobody, `is_up` asks it."""

    def statistics(self) -> dict[str, int]:
        """Return how many commands of this client wait for a place, and how many hold one."""
        return self._placer.statistics()

    def new_process_id(self) -> str:
        """Return an id that no other process has."""
        self._processes += 1
        return f"{self._prefix}-{self._processes}"

    async def start(self, params: ExecParams) -> RemoteProcess:
        """Start a command where there is room; see `ExecBackend`. Cancelled, it may have been started."""
        return (await self.place(params, None)).process

    async def place(
        self,
        params: ExecParams,
        resources: Mapping[str, float] | None,
        on_place: Callable[[str], object] = lambda host: None,
    ) -> Placed:
        """Start a command on a host whose worker has a thread, and the resources, free.

        One with an id that a process has is that process, or a conflict.

        Args:
            on_place: told the host's name before the command is started there.

        Raises:
            Those of `start`. ConnectionFailed: the cluster, or the host, is gone; nothing was started.
            ServerLost: the host is gone, and whether it was started is not known.
        """
        if params.process_id is None or params.process_id.startswith(f"{self._prefix}-"):
            return await self._place(params.process_id or self.new_process_id(), params, resources, on_place)
        async with self._turn(check_name(params.process_id)):
            known = await self._find(params.process_id)
            if known is None or known[1].process_id != params.process_id:  # or it is only a name
                return await self._place(params.process_id, params, resources, on_place)
            host = known[0]
            on_place(host.name)
            asked = _there(params, params.process_id, host.offer)
            return Placed(host.name, await host.backend.start(asked))

    async def _place(
        self,
        process_id: str,
        params: ExecParams,
        resources: Mapping[str, float] | None,
        on_place: Callable[[str], object],
    ) -> Placed:
        offer = await self._placer.place(process_id, resources)
        try:
            host = self._placed[process_id] = await self._hosts.of(offer)
        except BaseException:
            self._placer.give_up(process_id)
            raise
        on_place(host.name)
        try:
            return Placed(host.name, await host.backend.start(_there(params, process_id, offer)))
        finally:
            self._placer.started(process_id)  # the slot is given back where it turns out not to be so

    def _turn(self, process_id: str) -> asyncio.Lock:
        """Return what lets the same start wait for the one before, whose process it is then."""
        return self._turns.setdefault(process_id, asyncio.Lock())

    async def explain(self, params: ExecParams) -> dict[str, Any]:
        """Tell what a start would become, on one of the hosts; see `ExecBackend`."""
        return await (await self._any()).backend.explain(params)

    async def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles of one of the hosts; see `ExecBackend`."""
        return await (await self._any()).backend.profiles()

    async def attach(self, id_or_name: str) -> RemoteProcess:
        """Find a process; see `ExecBackend`."""
        return (await self.find(id_or_name)).process

    async def find(self, id_or_name: str) -> Placed:
        """Find a process of the cluster, as `attach` does, and where it runs.

        Raises:
            ProcessNotFound: no host that can be reached has it.
        """
        if (host := self._placed.get(id_or_name)) is not None:
            return Placed(host.name, await host.backend.attach(id_or_name))
        found = None if self._placer.is_waiting(id_or_name) else await self._find(id_or_name)
        if found is None:
            raise _not_found(id_or_name)
        host, info = found
        return Placed(host.name, await host.backend.attach(info.process_id))

    async def list_processes(self, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process of every host that can be reached, oldest first; warn of the others."""
        hosts = await self._hosts.all()
        asked = (host.backend.list_processes(usage) for host in hosts)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: list[ProcessInfo] = []
        for host, answer in zip(hosts, answers, strict=True):
            if isinstance(answer, BaseException):
                warnings.warn(f"host {host.name} is left out: {answer}", RuntimeWarning, stacklevel=2)
            else:
                found += answer
        return sorted(found, key=lambda info: info.started_at)

    async def server_info(self) -> ServerInfo:
        """Describe the cluster."""
        hosts = await self._hosts.all()
        return ServerInfo(
            pid=0,
            epoch="",
            version=VERSION,
            name=self._name,
            host=self._dask.address,
            role="owner",
            started_at=float(self._about.get("started", 0.0)),
            statistics={"hosts": len(hosts), **self.statistics()},
        )

    async def doctor(self) -> list[dict[str, object]]:
        """Return the findings of every host that can be reached, each with the host's name before its own."""
        hosts = await self._hosts.all()
        answers = await asyncio.gather(*(host.backend.doctor() for host in hosts))
        return [
            {**finding, "name": f"{host.name}: {finding['name']}"}
            for host, findings in zip(hosts, answers, strict=True)
            for finding in findings
        ]

    async def shutdown(self) -> None:
        """Refuse: the servers of a cluster end with its nannies.

        Raises:
            InvalidState: always.
        """
        raise InvalidState("the servers of a Dask cluster end with it: close the cluster")

    async def share(self, terms: ShareTerms, output: Path) -> ShareInfo:
        """Refuse: a connection file is that of one server.

        Raises:
            InvalidState: always.
        """
        raise _no_sharing()

    async def shares(self) -> list[ShareInfo]:
        """Describe the shares: a cluster has none."""
        return []

    async def revoke(self, share_id: str) -> None:
        """Refuse, as `share` does."""
        raise _no_sharing()

    async def aclose(self) -> None:
        """Close all connections; idempotent. What runs goes on; the Dask client is its maker's to close."""
        try:
            await self._placer.aclose()
            await self._hosts.aclose()
        finally:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                await on_close()

    def _is_used(self, server: str) -> bool:
        """Tell whether a command of this client runs on a server, as far as is known."""
        return any(host.id == server for host in self._placed.values())

    async def _any(self) -> Host:
        hosts = await self._hosts.all()
        if not hosts:
            raise ConnectionFailed("the cluster has no worker: scale it up, then do the same again")
        return hosts[0]

    async def _find(self, id_or_name: str) -> tuple[Host, ProcessInfo] | None:
        """Look for a process on all hosts: by id, then by living name, then the newest finished."""
        hosts = await self._hosts.all()
        infos = await asyncio.gather(*(_look(host, id_or_name) for host in hosts))
        found = [(host, info) for host, info in zip(hosts, infos, strict=True) if info is not None]

        def rank(one: tuple[Host, ProcessInfo]) -> tuple[bool, bool, float]:
            info = one[1]
            return info.process_id == id_or_name, not info.exited, info.started_at

        return max(found, key=rank, default=None)


async def _look(host: Host, id_or_name: str) -> ProcessInfo | None:
    try:
        return await (await host.backend.attach(id_or_name)).info()
    except ProcessNotFound:
        return None
    except ExecZMQError as error:
        warnings.warn(f"host {host.name} is left out: {error}", RuntimeWarning, stacklevel=2)
        return None


def _there(params: ExecParams, process_id: str, offer: Offer) -> ExecParams:
    """Return what a host is asked for: by default a command has the worker's folder, and its devices."""
    policy = params.env_policy
    if params.env is None and policy is None and offer["devices"]:
        policy = EnvPolicy(set={name.encode(): value.encode() for name, value in offer["devices"].items()})
    cwd = offer["cwd"] if params.cwd is None else params.cwd
    return replace(params, process_id=process_id, cwd=cwd, env_policy=policy)


def _no_sharing() -> InvalidState:
    return InvalidState(
        "a cluster is shared by its scheduler's address: connect with a Dask client of your own"
    )


def _not_found(id_or_name: str) -> ProcessNotFound:
    message = f"no host of the cluster has a process with the id or name {id_or_name!r}"
    return ProcessNotFound(message, process_id=id_or_name)
