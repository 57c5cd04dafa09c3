"""Much output in a page: it never stands still, and nothing is lost."""

import pytest

import execzmq
from tests.browser.notebook import Notebooks
from tests.support import ms

pytestmark = pytest.mark.slow

LOAD = "%load_ext execzmq"
MOST_SECONDS = ms(300)
"""The longest that a page may stand still."""
LINES = 100_000
HUNDRED_MB = 100_000_000


async def test_many_lines(notebooks: Notebooks) -> None:
    """They do not stop the page, which shows the first, the last, and where the others are."""
    notebook = await notebooks.open(LOAD, f"%execz seq 1 {LINES}")
    await notebook.run(0)
    async with notebook.frames() as frames:
        shown = await notebook.run(1)
    assert frames.longest <= MOST_SECONDS
    assert shown.startswith("1\n2\n3\n")
    assert f"\n{LINES}\n" in shown
    [process] = await _processes()
    assert f"execzmq logs {process.process_id}" in shown
    last = notebook.cell(1).locator(".jp-OutputArea-child").last
    await last.evaluate("element => element.scrollIntoView({block: 'end'})")
    await notebook.picture("flood")


async def test_a_hundred_megabytes_in_the_background(notebooks: Notebooks) -> None:
    """They run to their end with nobody reading, while the page lives and other cells run."""
    flood = f"%execz --bg --proc flood head -c {HUNDRED_MB} /dev/zero | tr '\\0' x | fold -w 99"
    notebook = await notebooks.open(
        LOAD, flood, "print('alive')", "print(flood.wait(closed=True).output_bytes)"
    )
    await notebook.run(0)
    async with notebook.frames() as frames:
        await notebook.run(1)
        assert await notebook.run(2) == "alive\n"
        ended = await notebook.run(3)
    assert frames.longest <= MOST_SECONDS
    assert str(HUNDRED_MB + -(-HUNDRED_MB // 99) - 1) in ended


async def _processes() -> list[execzmq.ProcessInfo]:
    async with execzmq.aconnect() as client:
        return await client.processes()
