"""The live view of a process in a page, used as a person uses it."""

import json

import pytest
from playwright.async_api import Locator, expect

from tests.browser.notebook import Notebook, Notebooks

pytestmark = pytest.mark.slow

LOAD = "%load_ext execzmq"
ECHO = "%execz -i --bg --name echo cat"
ANSWERS = """%%execz -i
printf 'ready\\n'
while read line; do printf 'got \\e[31m%s\\e[0m\\n' "$line"; done
"""
THEME = "apputils:change-theme"
FORGED = (
    '<div class="execzmq execzmq-id-nobody execzmq-instance-7 execzmq-seq-0 execzmq-kind-view'
    ' execzmq-state-running execzmq-hub-gone"><script>globalThis.forged = 1</script>'
    '<img src="x" onerror="globalThis.forged = 1"><code>rm -rf</code></div>'
)


def live(notebook: Notebook, index: int) -> Locator:
    """Return the live view under a cell, shown and running."""
    return notebook.cell(index).locator('.execzmq-view[data-state="running"]')


def button(view: Locator, text: str) -> Locator:
    """Return one of the buttons of a view."""
    return view.get_by_role("button", name=text, exact=True)


async def test_keyboard_only(notebooks: Notebooks) -> None:
    """While its cell runs a process is written to and interrupted without a mouse; its record stays."""
    notebook = await notebooks.open(LOAD, ANSWERS)
    await notebook.run(0)
    await notebook.start(1)
    view, keyboard = live(notebook, 1), notebook.page.keyboard
    await expect(view.locator(".execzmq-stdin")).to_be_visible()
    await expect(view.locator(".execzmq-usage")).to_contain_text("MB")
    await notebook.page.evaluate("jupyterapp.shell.currentWidget.content.activate()")
    await keyboard.press("Escape")
    await _tab_to(notebook, "INPUT")
    await keyboard.type("hello")
    await keyboard.press("Enter")
    await notebook.said(1, "got \x1b[31mhello")
    await notebook.picture("view-light")
    await _tab_to(notebook, "Interrupt", key="Shift+Tab")
    await keyboard.press("Enter")
    await notebook.ended(1)
    await expect(notebook.cell(1).locator(".execzmq-live")).to_have_count(0)
    await expect(notebook.cell(1).locator(".execzmq")).to_contain_text("signal 2 (INT)")


async def _tab_to(notebook: Notebook, goal: str, key: str = "Tab") -> None:
    """Press Tab until something has the focus: an element of that name, or one with that text."""
    for _ in range(12):
        await notebook.page.keyboard.press(key)
        found = await notebook.page.evaluate(
            "[document.activeElement.tagName, document.activeElement.textContent]"
        )
        if goal in found:
            return
    pytest.fail(f"{goal} cannot be reached with {key}")


async def test_reload_and_restart(notebooks: Notebooks) -> None:
    """A page that is loaded anew, and then a new kernel, go on from the last byte that the notebook shows."""
    notebook = await notebooks.open(LOAD, ECHO)
    await notebook.run(0)
    await notebook.run(1)
    view = live(notebook, 1)
    await _send(view, "one")
    await notebook.said(1, "one\n")
    await expect(notebook.cell(1).locator(".execzmq-seq-2, .execzmq-seq-3")).to_have_count(1, timeout=10_000)

    await notebook.reload()
    await _send(view, "two")
    await button(view, "Attach").click()
    pane = view.locator(".execzmq-pane")
    await expect(pane).to_have_text("two")
    await expect(pane).to_have_css("border-top-width", "1px")  # apart from the cell's output below it

    await notebook.page.evaluate(
        "jupyterapp.shell.currentWidget.sessionContext.restartKernel().then(() => null)"
    )
    await notebook.idle()
    await expect(notebook.cell(1).locator(".execzmq-live")).to_have_count(0)
    await notebook.run(0)
    offered = notebook.cell(1).locator(".execzmq-live").get_by_role("button", name="Attach")
    await expect(offered).to_have_css("border-top-width", "1px")  # not as a browser draws a bare button
    await offered.click()
    await expect(pane).to_have_text("two")
    await _send(view, "three")
    await expect(pane).to_have_text("twothree")
    await notebook.command(THEME, {"theme": "JupyterLab Dark"})
    await expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    await notebook.picture("view-dark")
    await notebook.command(THEME, {"theme": "JupyterLab Light"})
    await button(view, "Close stdin").click()
    await expect(notebook.cell(1).locator(".execzmq-status")).to_have_text("exit code 0")


async def test_end_after_reload(notebooks: Notebooks) -> None:
    """What ends after the page was loaded anew is kept in the notebook, and what was being read stays."""
    notebook = await notebooks.open(LOAD, ECHO)
    await notebook.run(0)
    await notebook.run(1)
    await expect(live(notebook, 1)).to_be_visible()
    await notebook.reload()
    view = live(notebook, 1)
    await button(view, "Attach").click()
    await _send(view, "last words")
    await expect(view.locator(".execzmq-pane")).to_have_text("last words")
    await button(view, "Close stdin").click()
    await notebook.said(1, "exit code 0")
    await expect(notebook.cell(1).locator(".execzmq-status")).to_have_text("exit code 0")
    await expect(notebook.cell(1).locator(".execzmq-pane")).to_have_text("last words")


async def _send(view: Locator, line: str) -> None:
    await view.locator(".execzmq-stdin").fill(line)
    await button(view, "Send").click()


async def test_focus_outlives_a_new_record(notebooks: Notebooks) -> None:
    """What is being typed stays while the record under it is written anew."""
    notebook = await notebooks.open(LOAD, "%execz -i --bg while sleep 0.3; do echo tick; done", "1 + 1")
    await notebook.run(0)
    await notebook.run(1)
    line = live(notebook, 1).locator(".execzmq-stdin")
    await line.focus()
    await notebook.page.keyboard.type("half a ")
    record = notebook.cell(1).locator(".execzmq")
    before = await record.get_attribute("class")
    await expect(record).not_to_have_attribute("class", str(before), timeout=15_000)
    await notebook.page.keyboard.type("line")
    await expect(line).to_have_value("half a line")
    await expect(line).to_be_focused()
    await button(live(notebook, 1), "Kill").click()
    await expect(notebook.cell(1).locator(".execzmq")).to_contain_text("signal 9 (KILL)")


async def test_notebook_from_elsewhere(notebooks: Notebooks) -> None:
    """Records of a notebook that nobody trusts run no code, and reach no process; a widget shows one live."""
    widget = (
        "import execzmq, execzmq.notebook\np = execzmq.start('sleep 60')\nexeczmq.notebook.show(p).widget"
    )
    path = notebooks.server.root / "elsewhere.ipynb"
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "x", "text/html": FORGED}}
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": []}
    cells = [
        {**cell, "id": "a", "source": LOAD},
        {**cell, "id": "b", "source": "", "outputs": [output]},
        {**cell, "id": "c", "source": widget},
    ]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    notebook = await notebooks.show(path)
    await notebook.run(0)
    offered = notebook.cell(1).locator(".execzmq-live")
    await offered.get_by_role("button", name="Attach").click()
    await expect(offered).to_contain_text("nobody")
    assert await notebook.page.evaluate("globalThis.forged") is None
    await notebook.run(2)
    await button(live(notebook, 2), "Stop").click()
    await expect(notebook.cell(2).locator(".execzmq-status")).to_contain_text("signal 15 (TERM)")
