"""Terminals in cells: typed at, resized, loaded anew, shared between notebooks, and flooded."""

import shutil
from pathlib import Path

import pytest

from tests.browser.floods import flood
from tests.browser.notebook import Notebook, Notebooks
from tests.browser.shown_terminal import ShownTerminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

LOAD = "%load_ext execzmq"
SHELL = "%execz --tty --bg --name shell seq 60; PS1='$ ' exec bash --norc --noprofile"


async def opened(notebooks: Notebooks, line: str, name: str = "one") -> tuple[Notebook, ShownTerminal]:
    """Open a notebook and run a line that shows a terminal in its second cell."""
    notebook = await notebooks.open(LOAD, line, "import time; print('busy'); time.sleep(3)", name=name)
    await notebook.run(0)
    await notebook.start(1)
    return notebook, ShownTerminal(notebook.page)


async def test_terminal_in_a_cell(notebooks: Notebooks) -> None:
    """It is typed at, also while a cell runs; JupyterLab's keys are the program's; a new page goes on."""
    notebook, terminal = await opened(notebooks, SHELL)
    await terminal.held("yours")
    await terminal.says("\n60\n$")
    assert (await terminal.text()).startswith("1\n2\n3\n")  # what was written before the page was there
    await terminal.type("echo dd aa; stty size\n")
    cells = await terminal.cells()
    await terminal.says(f"dd aa\n{cells['rows']} {cells['cols']}\n$")
    await notebook.picture("terminal")
    await notebook.start(2)
    await notebook.said(2, "busy")
    await terminal.type("echo mean''while\n")
    await terminal.says("\nmeanwhile")
    await notebook.ended(2)
    async with notebook.dark():
        await terminal.holds("view => view.term.options.theme.background === '#111111'")
        await notebook.picture("terminal-dark")
    await notebook.reload()
    await terminal.held("yours")
    await terminal.says("\nmeanwhile")
    await terminal.type("echo after''wards; exit\n")
    await notebook.said(1, "\nafterwards")


async def test_two_notebooks_on_one_terminal(notebooks: Notebooks, tmp_path: Path) -> None:
    """An editor that another notebook joins late looks the same there, cell by cell; who types changes."""
    if shutil.which("vim") is None:
        pytest.skip("no vim to join late")
    (tmp_path / "file.py").write_text("def grüße(n):\n    return 'wörld' * n\n" * 40)
    vim = "vim -u NONE -c 'syntax on | set number hlsearch mouse=a' -c /return file.py"
    notebook, owner = await opened(notebooks, f"%execz --tty --bg --name editor --cwd {tmp_path} {vim}")
    await owner.held("yours")
    await owner.says("wörld")
    await owner.type(":split\nia longer line")
    await owner.says("a longer line")
    other, watcher = await opened(notebooks, "%execz --attach editor", name="two")
    await watcher.held("elsewhere")
    await watcher.says("a longer line")
    await watcher.looks_like(owner)
    await notebook.picture("terminal-owner")
    await other.picture("terminal-watcher")
    await watcher.press("Take keyboard")
    await watcher.held("yours")
    await other.page.keyboard.type(" of another")
    await owner.says("a longer line of another")
    await owner.held("elsewhere")
    await owner.looks_like(watcher)
    await watcher.press("Hand over keyboard")
    await owner.held("free")
    await owner.type("\x1b:qa!\n")
    await notebook.said(1, "exit code 0")


async def test_flood(notebooks: Notebooks) -> None:
    """A flood is shown to its last line, and the page has rendered every byte that the log has."""
    notebook, terminal = await opened(notebooks, SHELL)
    await terminal.held("yours")
    await flood(terminal, 300_000)
    await terminal.type("exit\n")
    await notebook.said(1, "exit code 0")
