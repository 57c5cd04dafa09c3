"""A real kernel with a home of its own, and what its cells show; the tests of a module share one."""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

from tests.homes import FOLDERS
from tests.support import REPOSITORY, deadline

SECONDS = 15.0


@dataclass
class Cell:
    """What one cell has shown so far, and how it ended.

    Args:
        outputs: the outputs in their order, as messages; updates of displays are worked in.
        status: of the reply; empty while it runs.
    """

    msg_id: str
    outputs: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    is_idle: bool = False

    def text(self, name: str = "stdout") -> str:
        """Return all text of a stream."""
        return "".join(one["text"] for one in self.outputs if one.get("name") == name)

    @property
    def error(self) -> str:
        """Return the traceback as it is shown, empty where there is none."""
        return "\n".join(line for one in self.outputs for line in one.get("traceback", ()))

    @property
    def shown(self) -> list[str]:
        """Return the plain text of what was displayed."""
        return [one["data"]["text/plain"] for one in self.outputs if "data" in one]


class Kernel:
    """A kernel that runs, with the extension loaded."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client
        self._cells: dict[str, Cell] = {}

    def run(self, code: str, seconds: float = SECONDS) -> Cell:
        """Run a cell to its end."""
        cell = self.start(code)
        self.wait(cell, lambda: bool(cell.status and cell.is_idle), seconds)
        return cell

    def start(self, code: str) -> Cell:
        """Begin to run a cell."""
        msg_id = self._client.execute(code, store_history=True)
        return self._cells.setdefault(msg_id, Cell(msg_id))

    def wait(self, cell: Cell, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Take messages of the kernel until a condition holds."""
        limit = deadline(seconds)
        while not condition():
            try:
                self._take_iopub(self._client.get_iopub_msg(timeout=min(0.05, limit.left())))
            except TimeoutError:
                raise AssertionError(f"not within {seconds} s: {cell}") from None
            except queue.Empty:
                pass
            self._take_replies()

    def wait_text(self, cell: Cell, text: str, name: str = "stdout", seconds: float = SECONDS) -> None:
        """Wait until a stream of a cell has shown a text."""
        self.wait(cell, lambda: text in cell.text(name), seconds)

    def wait_end(self, cell: Cell, seconds: float = SECONDS) -> None:
        """Wait until a cell has ended."""
        self.wait(cell, lambda: bool(cell.status and cell.is_idle), seconds)

    def interrupt(self) -> None:
        """Interrupt the kernel as a front end does."""
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """Restart the kernel as a front end does, and load the extension again."""
        self._manager.restart_kernel(now=False)
        self._client.wait_for_ready(timeout=deadline(30).left())
        assert self.run("%load_ext execzmq").status == "ok"

    def complete(self, code: str) -> list[str]:
        """Return what Tab offers at the end of a text."""
        answer = self._client.complete(code, reply=True, timeout=deadline(SECONDS).left())
        return list(answer["content"]["matches"])

    def _take_replies(self) -> None:
        try:
            while True:
                message = self._client.get_shell_msg(timeout=0)
                if cell := self._cells.get(message["parent_header"]["msg_id"]):
                    cell.status = message["content"]["status"]
        except queue.Empty:
            pass

    def _take_iopub(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if kind == "update_display_data":
            self._update(content)
        elif cell is not None and kind == "status":
            cell.is_idle = content["execution_state"] == "idle"
        elif cell is not None and kind in ("stream", "display_data", "execute_result", "error"):
            cell.outputs.append(content)

    def _update(self, content: dict[str, Any]) -> None:
        wanted = content["transient"]["display_id"]
        for cell in self._cells.values():
            for output in cell.outputs:
                if output.get("transient", {}).get("display_id") == wanted:
                    output["data"] = content["data"]


_running: list[KernelManager] = []


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Run a kernel meanwhile; its servers end with it."""
    root = Path(tempfile.mkdtemp(prefix="xk-", dir="/tmp"))
    env = _env(root)
    manager = KernelManager(kernel_name="python3", connection_file=str(root / "kernel.json"))
    manager.transport = "ipc"
    manager.ip = str(root / "k")
    manager.start_kernel(env=env, cwd=str(root))
    client = manager.blocking_client()
    _running.append(manager)
    try:
        client.start_channels()
        client.wait_for_ready(timeout=deadline(30).left())
        running = Kernel(manager, client)
        assert running.run("%load_ext execzmq").status == "ok"
        yield running
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        _running.remove(manager)
        if not _running:
            ensure_event_loop().close()  # that of this thread, on which jupyter_client blocks
        shutdown = [sys.executable, "-m", "execzmq", "shutdown", "--all"]
        subprocess.run(shutdown, env=env, capture_output=True, timeout=30, check=False)
        shutil.rmtree(root, ignore_errors=True)


def _env(root: Path) -> dict[str, str]:
    folders = {variable: str(root / name) for variable, name in FOLDERS.items()}
    for folder in folders.values():
        os.mkdir(folder, 0o700)
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return {
        **os.environ,
        **folders,
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
