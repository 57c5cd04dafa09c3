"""`%execz` in a page: what a cell shows, the stop button, output that comes later, a restarted kernel."""

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

import execzmq
from tests.browser.gates import gate
from tests.browser.notebook import Notebooks
from tests.support import ms

pytestmark = pytest.mark.slow

LOAD = "%load_ext execzmq"
COLOURS = "%execz printf '\\033[1;32mgreen\\033[0m\\n'; printf '10%%\\r50%%\\r100%%\\n'; echo said apart >&2"
LOOP = "for turn in range(10**6):\n    print('turn', turn)\n    get_ipython().run_line_magic('execz', 'true')"
FAILS = "%execz echo begins; exit 3"


async def _processes() -> list[execzmq.ProcessInfo]:
    async with execzmq.aconnect() as client:
        return await client.processes()


async def test_a_cell_shows_its_command(notebooks: Notebooks) -> None:
    """Colours, both streams, a bar that overwrites itself; a failure ends the run of all cells.

    What the file keeps of it is shown by nbconvert, too.
    """
    notebook = await notebooks.open(LOAD, COLOURS, FAILS, "print('never')")
    await notebook.run_all()
    streams = {o["name"]: o["text"] for o in await notebook.outputs(1) if o["output_type"] == "stream"}
    assert "".join(streams["stdout"]) == "\033[1;32mgreen\033[0m\n100%\n"
    assert "".join(streams["stderr"]) == "said apart\n"
    await notebook.cell(1).locator(".ansi-green-intense-fg, .ansi-green-fg", has_text="green").wait_for()
    assert "begins" in await notebook.text(2)
    assert "CalledProcessError" in await notebook.text(2)
    assert await notebook.text(3) == ""
    await notebook.picture("magic")
    async with notebook.dark():
        await notebook.picture("magic-dark")
    await notebook.command("docmanager:save")
    page, _ = HTMLExporter().from_notebook_node(nbformat.read(notebook.path, as_version=4))
    assert "ansi-green" in page
    assert "100%" in page
    assert "said apart" in page


async def test_the_stop_button(notebooks: Notebooks) -> None:
    """A flood stops within a second, its process with it; later cells do not run, the kernel lives.

    So does a loop of Python's round commands, whether a command is running at that moment or none.
    """
    notebook = await notebooks.open(LOAD, "%execz yes", "print('never')", "print('alive')", LOOP)
    await notebook.run(0)
    await notebook.start_all()
    await notebook.said(1, "y\ny\n")
    async with asyncio.timeout(ms(1000)):
        await notebook.interrupt()
        await notebook.ended_all()
    assert "KeyboardInterrupt" in await notebook.text(1)
    assert await notebook.text(2) == ""
    assert [info.exited for info in await _processes()] == [True]
    assert await notebook.run(3) == "alive\n"
    await notebook.picture("stop-button")
    await notebook.start(4)
    await notebook.said(4, "turn 2")
    async with asyncio.timeout(ms(1000)):
        await notebook.interrupt()
        await notebook.ended(4)
    assert "KeyboardInterrupt" in await notebook.text(4)
    assert all(info.exited for info in await _processes())


async def test_background_output_stays_under_its_cell(notebooks: Notebooks, home_root: Path) -> None:
    """What a command says later is shown by the cell that started it, whichever has run since."""
    with gate(home_root) as command:
        notebook = await notebooks.open(LOAD, f"%execz --bg {command.line}", "print('x')", "print('z')")
        for index in (0, 1, 2):
            await notebook.run(index)
        for line in ("one", "two"):
            command.let(line)
            await notebook.said(1, line)
        assert await notebook.run(3) == "z\n"
        command.let("three")
        await notebook.said(1, "three")
        command.end()
    assert await notebook.text(2) == "x\n"
    assert await notebook.text(3) == "z\n"
    await notebook.picture("background")


async def test_a_process_outlives_page_and_kernel(notebooks: Notebooks, home_root: Path) -> None:
    """A page is loaded anew and a kernel restarts while it runs; `--attach` shows all of it, and its end."""
    attach = "%load_ext execzmq\n%execz --attach long"
    with gate(home_root) as command:
        notebook, other = await asyncio.gather(
            notebooks.open(
                LOAD, f"%execz --detach-on-interrupt --name long {command.line}", attach, name="one"
            ),
            notebooks.open(attach, name="two"),
        )
        await notebook.run(0)
        await notebook.start(1)
        command.let("one")
        await notebook.said(1, "one")
        await notebook.reload()
        assert "one" in await notebook.text(1)
        await notebook.restart()
        await asyncio.gather(notebook.start(2), other.start(0))
        command.let("two")
        await asyncio.gather(notebook.said(2, "two"), other.said(0, "two"))
        command.end()
        await asyncio.gather(notebook.ended(2), other.ended(0))
    assert "one\ntwo\n" in await notebook.text(2)
    assert "one\ntwo\n" in await other.text(0)
    await notebook.picture("restart-attach")
    assert [info.closed for info in await _processes()] == [True]


async def test_by_the_keyboard_alone(notebooks: Notebooks) -> None:
    """A command is typed, run and interrupted without a pointer."""
    notebook = await notebooks.open(LOAD, "")
    keyboard = notebook.page.keyboard
    await notebook.run(0)
    await notebook.page.locator("body").press("ArrowDown")
    await keyboard.press("Enter")
    await keyboard.type("%execz echo begun; sleep 1000")
    await keyboard.press("Control+Enter")
    await notebook.said(1, "begun")
    await keyboard.press("i")
    await keyboard.press("i")
    await notebook.said(1, "KeyboardInterrupt")
    await notebook.idle()
    await notebook.picture("keyboard")
    assert [info.exited for info in await _processes()] == [True]


async def test_in_notebook_7(notebooks: Notebooks) -> None:
    """The same in Notebook 7: output, the stop button, the cells after it."""
    notebook = await notebooks.open(LOAD, COLOURS, "%execz yes", "print('never')", front="notebook")
    await notebook.start_all()
    await notebook.said(2, "y\ny\n")
    await notebook.interrupt()
    await notebook.ended_all()
    assert "said apart" in await notebook.text(1)
    assert "KeyboardInterrupt" in await notebook.text(2)
    assert await notebook.text(3) == ""
    await notebook.picture("magic-notebook7")
