"""The picture of a notebook that the documentation shows, taken anew by each run of the tests."""

import pytest

from tests.browser.notebook import PICTURES, Notebooks
from tests.browser.shown_terminal import ShownTerminal

pytestmark = pytest.mark.slow

PROGRAM = """import time

for epoch in range(1, 4):
    for step in range(41):
        bar = "#" * (step // 2)
        print(f"\\repoch {epoch} |{bar:<20}| loss {1 / (epoch + step / 40):.3f}", end="", flush=True)
        time.sleep(0.02)
    print("  \\033[32mcheckpoint written\\033[0m", flush=True)
input("go on? ")
"""
CELLS = (
    "%load_ext execzmq",
    '%execz echo "a line of the shell" | tr a-z A-Z',
    "%execz --bg -i --name train python3 train.py",
    "%execz --bg --tty --name edit sh",
)


async def test_picture_of_the_documentation(notebooks: Notebooks) -> None:
    """`docs/images/notebook.png` is a copy of it: a line, a program that is alive, and a terminal."""
    program = notebooks.server.root / "train.py"
    program.write_text(PROGRAM)
    notebook = await notebooks.open(*CELLS, name="train")
    await notebook.command("application:toggle-left-area")
    for index in range(len(CELLS)):
        await notebook.run(index)
    await notebook.said(2, "go on?")
    terminal = ShownTerminal(notebook.page)
    await terminal.held("yours")
    await terminal.type("clear; head -n 5 train.py; grep -n --color=always epoch train.py\n")
    await terminal.says("3:for")
    await notebook.cell(2).locator(".execzmq-usage").get_by_text("CPU").wait_for()
    await notebook.page.locator(".jp-WindowedPanel-viewport").screenshot(path=PICTURES / "notebook.png")
    program.unlink()
