"""How an environment becomes a backend: what its kind needs is told where it is missing."""

import sys

import pytest

from execzmq.environments.model import Dask
from execzmq.environments.opening import open_dask
from execzmq.errors import InvalidRequest


async def test_a_cluster_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed Dask reads what to install."""
    for name in [name for name in sys.modules if name.startswith("execzmq.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidRequest, match=r"environment hpc: .*pip install 'execzmq\[cluster\]'"):
        await open_dask("hpc", Dask("tcp://127.0.0.1:1"))
