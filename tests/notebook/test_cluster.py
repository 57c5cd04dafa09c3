"""The magics on a cluster, in a kernel of its own: a Dask cluster leaves helpers that end with that."""

import pytest

from tests.notebook.kernels import kernel

SETUP = """
import distributed, os, pathlib

dask = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
folder = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "execzmq")
folder.mkdir()
(folder / "environments.toml").write_text(f'[farm]\\ndask = "{dask.scheduler_address}"\\n')
"""


@pytest.mark.slow
def test_cluster_is_an_environment() -> None:
    """`--on` leads to a Dask cluster, and finds there what it has started."""
    with kernel() as notebook:
        assert notebook.run(SETUP, seconds=30).status == "ok"
        cell = notebook.run("%%execz --on farm --name far\necho one; sleep 0.1; echo two; exit 3", seconds=30)
        assert cell.text() == "one\ntwo\n"
        assert "`execzmq logs --on farm " in cell.error
        assert notebook.run("%execz --on farm --no-raise-error --attach far").text() == "one\ntwo\n"
        assert notebook.run("%unload_ext execzmq\ndask.close()", seconds=30).status == "ok"
