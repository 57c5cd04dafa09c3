"""The pages themselves: a notebook runs in each front end, and none of them speaks to another machine."""

import pytest

from tests.browser.chromium import Calls
from tests.browser.notebook import Notebooks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("front", ["lab", "notebook"])
async def test_a_cell_runs(notebooks: Notebooks, front: str) -> None:
    """JupyterLab and Notebook 7 run a cell, and its outputs can be read."""
    notebook = await notebooks.open("print('he' + 'llo')", "1/0", "print('never')", front=front)
    assert await notebook.run(0) == "hello\n"
    await notebook.run_all()
    assert "ZeroDivisionError" in await notebook.text(1)
    assert await notebook.text(2) == ""
    await notebook.picture(f"cells-{front}")


async def test_calls_to_other_machines_are_seen_and_refused(notebooks: Notebooks, calls: Calls) -> None:
    """A page that asks another machine for something, by name or by number, gets nothing."""
    notebook = await notebooks.open()
    asked = ["http://example.com/a", "http://192.0.2.1/b"]
    for url in asked:
        assert (
            await notebook.page.evaluate("url => fetch(url).then(() => 'got', () => 'refused')", url)
            == "refused"
        )
    assert calls.outside == asked
    calls.outside.clear()
