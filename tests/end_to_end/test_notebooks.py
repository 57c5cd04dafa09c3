"""The notebooks that come with execzmq run from top to bottom, and are stored with what they show."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbconvert
import nbformat
import pytest

import execzmq
from execzmq import connection
from scripts.store_notebooks import FOLDER, ORDER, execute
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ALONE = [name for name in ORDER if "training" not in name]


@pytest.fixture(autouse=True)
def end_servers() -> Iterator[None]:
    """End the servers that a notebook has started."""
    yield
    subprocess.run([sys.executable, "-m", "execzmq", "shutdown", "--all"], check=False, timeout=60)


def _texts(notebook: Any) -> str:
    """Return all that the cells show as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


def _kinds(notebook: Any) -> list[set[str]]:
    """Return of each code cell which kinds of output it has: a stored one has the same.

    Left out is what depends on how fast the machine is: records of commands, and output in the background.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and "--bg" not in cell.source]
    return [
        {one.get("name", one.output_type) for one in cell.outputs if not _is_record(one)} for cell in cells
    ]


def _is_record(output: Any) -> bool:
    return 'class="execzmq ' in output.get("data", {}).get("text/html", "")


def _check(name: str, ran: Any) -> None:
    stored = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert _kinds(stored) == _kinds(ran), "run scripts/store_notebooks.py"
    outputs = [output for cell in ran.cells for output in cell.get("outputs", ())]
    assert not [o for o in outputs if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
    page, _ = nbconvert.HTMLExporter().from_notebook_node(ran)
    for word in re.findall(r"[a-z]{6,}", re.sub(r"\x1b\[[0-9;]*m", " ", _texts(ran))):
        assert word in page


@pytest.mark.parametrize("name", ALONE)
def test_notebook_runs_and_is_stored_with_its_outputs(name: str) -> None:
    """No cell fails; what is stored has the same outputs in kind; a page of HTML shows them."""
    _check(name, execute(FOLDER / f"{name}.ipynb"))


def _is_started() -> bool:
    if not (connection.state_folder("default") / "connection.json").exists():
        return False
    with execzmq.connect() as client:
        return any(info.name == "training" for info in client.processes())


def test_a_training_is_watched_from_a_second_notebook() -> None:
    """While it runs, in a kernel of its own; both show every step and how it ended."""
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(execute, FOLDER / "long-training.ipynb")
        wait_until(_is_started, 60)
        watched = execute(FOLDER / "watch-training.ipynb")
        ran = training.result()
    _check("long-training", ran)
    _check("watch-training", watched)
    for notebook in (ran, watched):
        assert "checkpoint written" in _texts(notebook)
        assert "40/40" in _texts(notebook)


def test_every_notebook_is_known() -> None:
    """None is left out of the order in which they are stored and run."""
    assert sorted(path.stem for path in Path(FOLDER).glob("*.ipynb")) == sorted(ORDER)
