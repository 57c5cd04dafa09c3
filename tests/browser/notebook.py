"""A notebook in a page: what a person does with it, and what a test wants to know of it.

All is read from JupyterLab's own models by `page.js`. What bounds a wait is the test's deadline alone.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import APIResponse, BrowserContext, Locator, Page

from tests.browser.jupyter import KERNEL, JupyterServer
from tests.support import REPOSITORY

PICTURES = REPOSITORY / "build" / "browser"
"""Where the pictures of the tests are kept."""
SCRIPT = Path(__file__).with_name("page.js")
"""What each page has as `tested`."""

PAGES = {"lab": "lab/workspaces/{stem}/tree/{name}", "notebook": "notebooks/{name}"}


@dataclass
class Frames:
    """The longest time in which a page showed nothing new, in seconds: known once the measure has ended."""

    longest: float = 0.0


class Notebook:
    """One notebook in a page of its own. `page` is Playwright's, for whatever has no word here."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path
        self.complaints: list[str] = []
        """What the page's scripts did not catch, or wrote to the console as errors."""
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)

    async def run(self, index: int) -> str:
        """Run a cell to its end; return the text that it shows."""
        await self.start(index)
        await self.ended(index)
        return await self.text(index)

    async def start(self, index: int) -> None:
        """Let a cell begin, and do not wait for its end."""
        await self._ask("start", index)

    async def ended(self, index: int) -> None:
        """Wait for the end of a cell that was started since the page was loaded."""
        await self._ask("ended", index)

    async def run_all(self) -> None:
        """Run all cells, as the menu does, until the last or the first that fails."""
        await self.start_all()
        await self.ended_all()

    async def start_all(self) -> None:
        """Let the run of all cells begin, and do not wait for its end."""
        await self._ask("startAll")

    async def ended_all(self) -> None:
        """Wait for the end of the run of all cells that was started since the page was loaded."""
        await self._ask("ended", -1)

    async def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return a cell's outputs as the notebook's file has them."""
        found = await self._ask("outputs", index)
        assert isinstance(found, list)
        return found

    async def text(self, index: int) -> str:
        """Return the text of a cell's outputs, streams and `text/plain` and tracebacks alike."""
        return str(await self._ask("text", index))

    async def said(self, index: int, text: str) -> float:
        """Wait until a cell's outputs hold `text`; return the page's time then, in seconds."""
        return float(await self._ask("said", index, text)) / 1000

    async def until_text(self, index: int, text: str) -> float:
        """Run a cell to its end; return the seconds until its outputs held `text`."""
        return float(await self._ask("untilText", index, text)) / 1000

    async def idle(self) -> None:
        """Wait until there is a kernel and it has nothing to do."""
        await self._ask("idle")

    async def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Execute a command of JupyterLab, such as `docmanager:save`, and wait for its end."""
        return await self.page.evaluate(
            "([name, words]) => jupyterapp.commands.execute(name, words).then(() => null)", [name, arguments]
        )

    async def interrupt(self) -> None:
        """Press the button that interrupts the kernel."""
        await self.page.locator(
            '.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]'
        ).click()

    async def restart(self) -> None:
        """Restart the kernel, and wait for the new one."""
        await self._ask("startRestart")
        await self.page.locator(".jp-Dialog .jp-mod-accept").click()
        await self._ask("ended", -2)
        await self.idle()

    async def reload(self) -> None:
        """Save, load the page anew, and wait until it shows the notebook and has its kernel."""
        await self.command("docmanager:save")
        await self.page.reload()
        await self.page.evaluate("tested.panel().then(panel => panel.sessionContext.ready)")

    def cell(self, index: int) -> Locator:
        """Return where a cell is in the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    @contextlib.asynccontextmanager
    async def frames(self) -> AsyncIterator[Frames]:
        """Measure meanwhile the longest time between two frames of the page."""
        measured = Frames()
        await self._ask("watchFrames")
        yield measured
        measured.longest = float(await self._ask("longestFrame")) / 1000

    @contextlib.asynccontextmanager
    async def dark(self) -> AsyncIterator[None]:
        """Show the page in its dark theme meanwhile."""
        await self._theme("JupyterLab Dark")
        yield
        await self._theme("JupyterLab Light")

    async def _theme(self, name: str) -> None:
        await self.command("apputils:change-theme", {"theme": name})
        await self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")
        await self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    async def picture(self, name: str) -> Path:
        """Keep a picture of the page, once it shows itself, as `build/browser/NAME.png`."""
        await self.page.locator("#jupyterlab-splash").wait_for(state="detached")
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        path.write_bytes(await self.page.screenshot())
        return path

    async def _ask(self, method: str, *arguments: Any) -> Any:
        return await self.page.evaluate(
            "([method, words]) => tested[method](...words)", [method, list(arguments)]
        )


@dataclass
class Notebooks:
    """The notebooks of one test: made here, shown here, and gone with it."""

    server: JupyterServer
    context: BrowserContext
    _made: list[Notebook] = field(default_factory=list)

    async def open(self, *cells: str, name: str = "test", front: str = "lab") -> Notebook:
        """Write a notebook with these cells of code, show it in a page and wait for its kernel.

        `front` is `lab` or `notebook`. The kernel starts while the page loads.
        """
        path = self.server.root / f"{name}.ipynb"
        path.write_text(json.dumps(_content(cells)))
        return await self.show(path, front=front)

    async def show(self, path: Path, *, front: str = "lab") -> Notebook:
        """Show a notebook that is in the server's folder, and wait for its kernel."""
        await self._ask(
            "POST",
            "sessions",
            {"path": path.name, "name": path.name, "type": "notebook", "kernel": {"name": KERNEL}},
        )
        place = PAGES[front].format(name=path.name, stem=path.stem)
        page = await self.context.new_page()
        notebook = Notebook(page, path)
        self._made.append(notebook)
        await page.goto(f"{self.server.url}/{place}?token={self.server.token}")
        await notebook.idle()
        return notebook

    async def explain(self) -> None:
        """Tell how the pages looked when the test failed, and what went wrong in them."""
        for notebook in self._made:
            print(f"{notebook.path.stem}: {await notebook.picture(f'failed-{notebook.path.stem}')}")
            print(*notebook.complaints, sep="\n")

    async def close(self) -> None:
        """Close the pages, end the kernels and remove the files; idempotent."""
        for notebook in self._made:
            await notebook.page.close(run_before_unload=False)
        for session in await self._ask("GET", "sessions"):
            await self._ask("DELETE", f"sessions/{session['id']}")
        for kernel in await self._ask("GET", "kernels"):
            await self._ask("DELETE", f"kernels/{kernel['id']}")
        for path in {notebook.path for notebook in self._made}:
            path.unlink(missing_ok=True)
        self._made.clear()

    async def _ask(self, method: str, path: str, content: Any = None) -> Any:
        """Send one request to the server's REST API and return what it answers."""
        answer: APIResponse = await self.context.request.fetch(
            f"{self.server.url}/api/{path}",
            method=method,
            data=content,
            headers={"Authorization": f"token {self.server.token}"},
        )
        body = await answer.body()
        assert answer.ok, f"{method} {path}: {answer.status} {body.decode(errors='replace')}"
        return json.loads(body) if body else None


def _content(cells: tuple[str, ...]) -> dict[str, Any]:
    """Return a notebook as its file has it."""
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {
        "cells": [{**empty, "id": f"cell-{index}", "source": source} for index, source in enumerate(cells)],
        "metadata": {"kernelspec": {"name": KERNEL, "display_name": KERNEL, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
