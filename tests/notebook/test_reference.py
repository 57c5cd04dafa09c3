"""The reference of the notebook names the options that there are, and what a result has."""

import re

from execzmq.notebook.arguments import OPTIONS
from execzmq.notebook.results import CommandResult
from tests.sources import ROOT

PAGE = (ROOT / "docs/reference/notebook.md").read_text()


def _first_cells(heading: str) -> set[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`(\S+?)(?:[ =][^`]*)?`", row)}


def test_options_are_in_the_reference() -> None:
    """Each option has a row, under all of its names."""
    assert _first_cells("Options") == {name for option in OPTIONS for name in option.names}


def test_result_is_in_the_reference() -> None:
    """Each public attribute of what comes back has a row."""
    public = {name for name in dir(CommandResult) if not name.startswith("_")} | {"process"}
    assert _first_cells("What comes back") >= public
