"""Own the async client of a cluster: `AsyncClient`, and where its commands run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Unpack

from execzmq.client import run as runs
from execzmq.client.aio import AsyncClient, AsyncProcess
from execzmq.client.arguments import Command, StartOptions, start_params
from execzmq.client.plan import Plan, RunOptions, run_plan
from execzmq.client.reaching import Reach
from execzmq.client.run import CompletedProcess
from execzmq.client.signatures import options_from
from execzmq.cluster.arguments import Resources, commands_of, resources_of
from execzmq.cluster.backend import ClusterBackend, Placed
from execzmq.cluster.progress import Bar
from execzmq.cluster.results import MapResult, completed, failed, is_of_one
from execzmq.cluster.slots import Slot
from execzmq.errors import ServerLost
from execzmq.types.results import ExitResult


class ClusterRunOptions(RunOptions, total=False):
    """Keywords of `run` on a cluster: those of `run`, and one more.

    Args:
        resources: what of a worker the command takes while it runs, besides one of its threads, as in
            `dask worker --resources "GPU=2"`; `None` = nothing.
    """

    resources: Resources | None


class ClusterStartOptions(StartOptions, total=False):
    """Keywords of `start` on a cluster: those of `start`, and one more.

    Args:
        resources: as for `run`.
    """

    resources: Resources | None


class AsyncClusterProcess(AsyncProcess):
    """A process of a cluster.

    Args:
        placed: the process and its host.
    """

    def __init__(self, placed: Placed) -> None:
        super().__init__(placed.process)
        self._host = placed.host

    @property
    def host(self) -> str:
        """The name of the host that it runs on."""
        return self._host

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # as that of every process
        *,
        closed: bool = False,
    ) -> ExitResult:
        """Wait as `AsyncProcess.wait`, but return a result with `cause="server_lost"` where the host is lost.

        That is known within 25 seconds of the loss; whether the command still runs there is not.
        """
        try:
            return await super().wait(timeout, closed=closed)
        except ServerLost:
            return ExitResult(cause="server_lost")


class AsyncClusterClient(AsyncClient):
    """Runs commands on the hosts of a Dask cluster: where, Dask decides. Otherwise an `AsyncClient`.

    `processes` describes those of all hosts, `attach` finds those of any.

    Args:
        backend: the cluster, or how it is reached; owned from now on.
    """

    def __init__(self, backend: ClusterBackend | Reach) -> None:
        super().__init__(backend)

    @property
    def cluster(self) -> ClusterBackend:
        """The cluster itself.

        Raises:
            ClientClosed: after `aclose`. InvalidState: before the first use.
        """
        assert isinstance(self.backend, ClusterBackend)
        return self.backend

    async def _reached(self) -> ClusterBackend:
        await self.connect()
        return self.cluster

    @options_from(ClusterRunOptions)
    async def run(self, args: Command, **options: Unpack[ClusterRunOptions]) -> CompletedProcess:
        """Run a command where there is room, as `AsyncClient.run` does; its time begins when it is started.

        Raises:
            Those of `AsyncClient.run`. ConnectionFailed: the cluster has no place for it.
            ServerLost: its host is lost; known within 25 seconds.
        """
        slot = Slot(await self._reached(), resources_of(options.pop("resources", None)))
        return await self._run(slot, run_plan(args, options, None))

    @options_from(ClusterStartOptions)
    async def start(self, args: Command, **options: Unpack[ClusterStartOptions]) -> AsyncClusterProcess:
        """Start a command as soon as there is room for it, as `AsyncClient.start` does.

        Cancelled while it waits for its place, nothing is started.

        Raises:
            Those of `AsyncClient.start`. ConnectionFailed: the cluster has no place for it.
        """
        resources = resources_of(options.pop("resources", None))
        params = start_params(args, options, None)
        return AsyncClusterProcess(await (await self._reached()).place(params, resources))

    async def attach(self, id_or_name: str) -> AsyncClusterProcess:
        """Find a process on any host, as `AsyncClient.attach` does.

        Raises:
            ProcessNotFound: no host that can be reached has it.
        """
        return AsyncClusterProcess(await (await self._reached()).find(id_or_name))

    @options_from(ClusterRunOptions)
    async def map(
        self, commands: Iterable[Command], progress: bool = False, **options: Unpack[ClusterRunOptions]
    ) -> list[MapResult]:
        """Run many commands, each as `run` does, and return what became of each, in the order given.

        A command that fails, or whose host is lost, keeps none of the others from running. Cancelling it,
        and any other exception in it, ends them all by KILL.

        Args:
            progress: draw a bar on stderr.

        Raises:
            TypeError, ValueError: the commands or the keywords; nothing was started.
        """
        resources = resources_of(options.pop("resources", None))
        plans = [run_plan(args, options, None) for args in commands_of(commands)]
        cluster = await self._reached()
        with Bar(len(plans), shown=progress) as bar:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._map_one(Slot(cluster, resources, bar), plan)) for plan in plans
                ]
        return [task.result() for task in tasks]

    async def _map_one(self, slot: Slot, plan: Plan) -> MapResult:
        try:
            done = await self._run(slot, plan)
            result = completed(slot.host, done)
        except Exception as error:
            if not is_of_one(error):
                raise
            result = failed(plan.args, slot.host, error)
        slot.bar.ended(result, had_place=bool(slot.host))
        return result

    async def _run(self, slot: Slot, plan: Plan) -> CompletedProcess:
        return await runs.run(slot, plan, self._runs)
