"""Own the cluster as one command sees it: a backend that places it with what it takes of a worker."""

from __future__ import annotations

from execzmq.cluster.arguments import Resources
from execzmq.cluster.backend import ClusterBackend
from execzmq.cluster.progress import Bar
from execzmq.types.backend import ExecProcess
from execzmq.types.params import ExecParams


class Slot:
    """The cluster as one command sees it: it has its resources, and learns its host.

    Attributes:
        host: its name, once it has a place there; before that empty.
    """

    def __init__(self, cluster: ClusterBackend, resources: Resources | None, bar: Bar | None = None) -> None:
        self._cluster = cluster
        self._resources = resources
        self.bar = Bar(1, shown=False) if bar is None else bar
        self.host = ""

    def new_process_id(self) -> str:
        """Return an id that no process has."""
        return self._cluster.new_process_id()

    async def start(self, params: ExecParams) -> ExecProcess:
        """Start the command where there is room; see `ClusterBackend.place`."""
        placed = await self._cluster.place(params, self._resources, self._has_place)
        return placed.process

    async def attach(self, id_or_name: str) -> ExecProcess:
        """Find a process of the cluster."""
        return await self._cluster.attach(id_or_name)

    def _has_place(self, host: str) -> None:
        self.host = host
        self.bar.started()
