"""What `%execz` costs in a page, beside `!` where that can do it: measured together by `make bench`."""

import statistics

import pytest

from tests.browser.floods import flood
from tests.browser.notebook import Notebooks
from tests.browser.shown_terminal import ShownTerminal

LOAD = "%load_ext execzmq"


@pytest.mark.bench
async def test_first_text(notebooks: Notebooks) -> None:
    """From the start of a cell to its first text: at most 1.5 times that of `!echo`."""
    notebook = await notebooks.open(LOAD, "%execz echo first", "!echo first")
    for index in range(3):
        await notebook.run(index)
    times = [[await notebook.until_text(index, "first") for index in (1, 2)] for _ in range(25)]
    ours, peer = (statistics.median(some) for some in zip(*times, strict=True))
    print(f"first text: %execz {ours * 1e3:.0f} ms, ! {peer * 1e3:.0f} ms, ratio {ours / peer:.2f}")
    assert ours / peer <= 1.5


@pytest.mark.bench
async def test_a_flood_of_lines(notebooks: Notebooks) -> None:
    """They hold a page up for at most 0.3 s, where those of `!seq` hold it up for many seconds."""
    notebook = await notebooks.open(LOAD, "%execz seq 1 100000", "!seq 1 100000")
    await notebook.run(0)
    longest = []
    for index in (1, 2):
        async with notebook.frames() as frames:
            await notebook.run(index)
        longest.append(frames.longest)
    print(f"longest frame of 100000 lines: %execz {longest[0]:.2f} s, ! {longest[1]:.2f} s")
    assert longest[0] <= 0.3


@pytest.mark.bench
async def test_lines_in_a_terminal(notebooks: Notebooks) -> None:
    """A terminal shows 3,000,000 lines, each of them, in at most 15 s."""
    notebook = await notebooks.open(LOAD, "%execz --tty --bg PS1='$ ' exec bash --norc --noprofile")
    await notebook.run(0)
    await notebook.run(1)
    terminal = ShownTerminal(notebook.page)
    await terminal.held("yours")
    seconds = await flood(terminal, 3_000_000)
    print(f"3000000 lines in a terminal: {seconds:.1f} s")
    assert seconds <= 15
    await terminal.type("exit\n")
    await notebook.said(1, "exit code 0")
