"""Own the blocking client of a cluster, one line each over the async one, and how both are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import distributed

from execzmq.client.aio import AsyncClient
from execzmq.client.arguments import Command
from execzmq.client.portal import LoopThread
from execzmq.client.run import CompletedProcess
from execzmq.client.signatures import options_from
from execzmq.client.sync import Client, Process
from execzmq.cluster.aio import (
    AsyncClusterClient,
    AsyncClusterProcess,
    ClusterRunOptions,
    ClusterStartOptions,
)
from execzmq.cluster.backend import ClusterBackend
from execzmq.cluster.dask import Dask
from execzmq.cluster.results import MapResult


class ClusterProcess(Process):
    """A process of a cluster; see `AsyncClusterProcess`."""

    def __init__(self, process: AsyncClusterProcess, client: Client) -> None:
        super().__init__(process, client)
        self._host = process.host

    @property
    def host(self) -> str:
        """The name of the host that it runs on."""
        return self._host


class ClusterClient(Client):
    """Runs commands on the hosts of a Dask cluster; see `AsyncClusterClient`, whose methods these are."""

    def __init__(self, client: AsyncClient, portal: LoopThread) -> None:
        super().__init__(client, portal)
        assert isinstance(client, AsyncClusterClient)
        self._cluster = client

    @property
    def cluster(self) -> ClusterBackend:
        """The cluster itself, for coroutines that `portal` runs."""
        return self._cluster.cluster

    @options_from(ClusterRunOptions)
    def run(self, args: Command, **options: Unpack[ClusterRunOptions]) -> CompletedProcess:
        """Run a command where there is room, as `Client.run` does; its time begins when it is started."""
        return self._call(self._cluster.run(args, **options))

    @options_from(ClusterStartOptions)
    def start(self, args: Command, **options: Unpack[ClusterStartOptions]) -> ClusterProcess:
        """Start a command as soon as there is room for it, as `Client.start` does."""
        return ClusterProcess(self._call(self._cluster.start(args, **options)), self)

    def attach(self, id_or_name: str) -> ClusterProcess:
        """Find a process on any host, as `Client.attach` does."""
        return ClusterProcess(self._call(self._cluster.attach(id_or_name)), self)

    @options_from(ClusterRunOptions)
    def map(
        self, commands: Iterable[Command], progress: bool = False, **options: Unpack[ClusterRunOptions]
    ) -> list[MapResult]:
        """Run many commands, each as `run` does, and return what became of each, in the order given.

        A command that fails, or whose host is lost, keeps none of the others from running.
        KeyboardInterrupt, and any other exception in it, ends them all by KILL. `progress` draws a bar.
        """
        return self._call(self._cluster.map(commands, progress, **options))


def connect(client: distributed.Client) -> ClusterClient:
    """Run commands on the cluster of a Dask client, which stays yours to close.

    Each host of the cluster gets an exec server, as do those that join later; it ends with the cluster.

    Raises:
        TypeError: it is no client of Dask.
        ConnectionFailed: the scheduler does not answer, or a host cannot start its server.
    """
    return ClusterClient.open(lambda: aconnect(client))


async def aconnect(client: distributed.Client) -> AsyncClusterClient:
    """Connect as `connect` does, for async code; the Dask client may be blocking or asynchronous.

    Cancelling it leaves the servers.
    """
    if not isinstance(client, distributed.Client):
        raise TypeError(
            f"connect takes a distributed.Client, not {type(client).__name__}: make one of an address or a"
            " cluster by distributed.Client(...); a name is taken by execzmq.connect"
        )
    return AsyncClusterClient(await ClusterBackend.open(Dask(client)))
