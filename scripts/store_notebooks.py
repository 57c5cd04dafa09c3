"""Run the notebooks and store them with their outputs, as their readers find them before they run a cell.

Run it after a change of what users see: `.venv/bin/python scripts/store_notebooks.py [NAME…]`. They have
folders and servers of their own, which are gone afterwards. What differs from run to run, such as times, is
kept as it was seen.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
ORDER = ("tour", "long-training", "watch-training", "agent-shell", "remote-machine", "cluster")
"""The second training notebook watches what the first one has started."""
SECONDS = 120
"""Of one cell."""
_HOME = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


def execute(path: Path) -> Any:
    """Run a notebook from top to bottom, in its folder and a kernel of this Python, and return it.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,  # as a page keeps them: one output, whose progress bars stand at their ends
        resources={"metadata": {"path": str(path.parent)}},
    )
    asyncio.run(client.async_execute())
    notebook.metadata.language_info = {
        "name": "python"
    }  # a version of Python's would change with the machine
    return notebook


def main() -> None:
    """Run those that are named on the command line, else all, in their order."""
    wanted = sys.argv[1:] or list(ORDER)
    os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    with tempfile.TemporaryDirectory(prefix="xz-", dir="/tmp") as home:
        os.environ.update(dict.fromkeys(_HOME, home))
        try:
            for name in ORDER:
                if name in wanted:
                    path = FOLDER / f"{name}.ipynb"
                    nbformat.write(execute(path), path)  # type: ignore[no-untyped-call]
                    print(f"stored: {path.name}")
        finally:
            subprocess.run([sys.executable, "-m", "execzmq", "shutdown", "--all"], check=False)


if __name__ == "__main__":
    main()
