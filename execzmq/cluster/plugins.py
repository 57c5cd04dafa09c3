"""Own what Dask loads: the plugin of the nannies, and the preload of nannies, workers and the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import pickle
from collections.abc import MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

from distributed import Nanny, Scheduler, Worker
from distributed.comm.addressing import get_address_host
from distributed.diagnostics.plugin import NannyPlugin, WorkerPlugin

from execzmq.cluster.hosting import HostServer, name_of
from execzmq.cluster.scheduling import Placements

_servers: MutableMapping[Nanny | Worker, HostServer] = WeakKeyDictionary()
"""The hold of each nanny, and of each worker without one, of this program."""
_telling: set[asyncio.Task[None]] = set()


class ExecServer(NannyPlugin):
    """Runs one exec server per host, which the nannies of that host hold together.

    Register it with `dask_client.register_plugin(ExecServer())`; `execzmq.cluster.connect` does so.
    """

    name = "execzmq"
    idempotent = True

    async def setup(self, nanny: Nanny) -> None:
        """Hold the host's server; start it where none runs."""
        await _hold(nanny)

    async def teardown(self, nanny: Nanny) -> None:
        """Hold it no more; the last one waits for its end."""
        await _let_go(nanny)


class NoNannyServer(WorkerPlugin):
    """Does the same for workers that have no nanny."""

    name = "execzmq"
    idempotent = True

    async def setup(self, worker: Worker) -> None:
        """Hold the host's server where no nanny does."""
        if worker.nanny is None:
            await _hold(worker)

    async def teardown(self, worker: Worker) -> None:
        """Hold it no more."""
        await _let_go(worker)


async def dask_setup(server: Any) -> None:
    """Do what `--preload execzmq.cluster` asks for, on a scheduler, a worker or a nanny.

    A worker leaves it to its nanny, which lives longer.
    """
    if isinstance(server, Scheduler):
        await server.register_scheduler_plugin(Placements(), idempotent=True)
    elif isinstance(server, Worker) and server.nanny is not None:
        # A nanny answers only when its worker has started.
        task = asyncio.create_task(_tell_nanny(server))
        _telling.add(task)
        task.add_done_callback(_telling.discard)
    elif isinstance(server, Nanny | Worker):
        await _hold(server)


async def dask_teardown(server: Any) -> None:
    """Undo it."""
    if isinstance(server, Nanny | Worker):
        await _let_go(server)


async def _tell_nanny(worker: Worker) -> None:
    with contextlib.suppress(OSError):  # it ends, and this worker with it
        async with worker.rpc(str(worker.nanny)) as nanny:  # its address, whatever the annotation says
            await nanny.plugin_add(plugin=pickle.dumps(ExecServer()), name=ExecServer.name)


async def _hold(member: Nanny | Worker) -> None:
    name = name_of((await member.scheduler.identity())["id"])
    # A preload and a plugin may ask for it, or two clients that register at a time.
    server = _servers.setdefault(member, HostServer(name, _options(member)))
    try:
        await server.open()
    except BaseException:
        await _let_go(member)
        raise


async def _let_go(member: Nanny | Worker) -> None:
    server = _servers.pop(member, None)
    if server is not None:
        await server.aclose()


def _options(member: Nanny | Worker) -> tuple[str, ...]:
    """Return where the server listens once a client on another host wants it: where Dask reaches the host."""
    host = get_address_host(member.address)
    try:
        return ("--ip", str(ipaddress.ip_address(host)))
    except ValueError:  # a name, or a place in this program: the server finds its address itself
        return ()
