"""What becomes of each kind of environment that is not on another machine."""

import importlib
import sys

import pytest

import execzmq
from execzmq.environments.model import Dask
from execzmq.environments.opening import open_dask
from execzmq.errors import InvalidRequest
from tests.environments.conftest import name_environments
from tests.servers import serving


@pytest.mark.slow
def test_server_of_ones_own_is_started_at_first_use() -> None:
    """By its name; the next client finds it."""
    name_environments("[build]\nserver = 'b'")
    with execzmq.connect("build") as client:
        try:
            assert client.info().name == "b"
            client.start(["sleep", "60"], process_id="s")
            with execzmq.connect("build") as other:
                assert other.attach("s").info().state == "running"
        finally:
            client.shutdown()


@pytest.mark.slow
def test_connection_file_leads_to_its_server() -> None:
    """Wherever it lies; a name goes before that of a server."""
    with serving("t") as server:
        name_environments(f"[default-2]\nfile = '{server.state}/connection.json'\n[t]\nlocal = true\n")
        with execzmq.connect("default-2") as client:
            assert client.info().pid == server.pid
        with execzmq.connect("t") as client:
            assert client.info().pid != server.pid


def test_file_that_is_not_there() -> None:
    """The error names it."""
    name_environments("[c]\nfile = '/no/such.json'")
    with pytest.raises(execzmq.ConnectionFailed, match=r"/no/such\.json: No such file"):
        execzmq.connect("c")


async def test_a_cluster_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed Dask reads what to install."""
    for name in [name for name in sys.modules if name.startswith("execzmq.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidRequest, match=r"environment hpc: .*pip install 'execzmq\[cluster\]'"):
        await open_dask("hpc", Dask("tcp://127.0.0.1:1"))
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'execzmq\[cluster\]'"):
        importlib.import_module("execzmq.cluster")
