"""Own the names of execzmq on a Dask cluster; needs the extra `cluster`, and nothing else of ours loads it.

As `--preload execzmq.cluster` it gives a scheduler, a worker or a nanny its part.
"""

from importlib.util import find_spec

if find_spec("distributed") is None:
    _needed = "execzmq.cluster needs more than is installed: pip install 'execzmq[cluster]'"
    raise ModuleNotFoundError(_needed, name="distributed")

from execzmq.cluster.aio import AsyncClusterClient, AsyncClusterProcess
from execzmq.cluster.plugins import ExecServer, dask_setup, dask_teardown
from execzmq.cluster.results import MapResult
from execzmq.cluster.sync import ClusterClient, ClusterProcess, aconnect, connect

__all__ = [
    "AsyncClusterClient",
    "AsyncClusterProcess",
    "ClusterClient",
    "ClusterProcess",
    "ExecServer",
    "MapResult",
    "aconnect",
    "connect",
    "dask_setup",
    "dask_teardown",
]
