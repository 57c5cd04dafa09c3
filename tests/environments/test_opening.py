"""What becomes of each kind of environment that is not on another machine."""

import pytest

import execzmq
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


def test_cluster_is_refused() -> None:
    """This version has none, and says so."""
    name_environments("[c]\ndask = 'tcp://s:1'")
    with pytest.raises(execzmq.InvalidRequest, match=r"environment c: .* no Dask clusters \(tcp://s:1\)"):
        execzmq.connect("c")


def test_file_that_is_not_there() -> None:
    """The error names it."""
    name_environments("[c]\nfile = '/no/such.json'")
    with pytest.raises(execzmq.ConnectionFailed, match=r"/no/such\.json: No such file"):
        execzmq.connect("c")
