"""The documentation is true: its examples run, its links lead somewhere, every page can be found."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import Block, ExampleFailed, blocks, commands, matches, run_page
from tests.sources import ROOT
from tests.support import deadline

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "connection-files").glob("*.md")])
PROGRAMS = sorted(DOCS.rglob("*.py"))
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)?(#[^)\s]*)?\)")
KINDS = ("tutorial", "howto", "explanation", "reference")


TRUE_PAGE = """
```python
import asyncio
x = 1
```

```python
await asyncio.sleep(0)
print(x)
```

```output
1
```

```console status=3
$ echo a; exit 3
a
```

```python not-run: needs another machine
raise ValueError
```

```ipython
text = !echo b
```

```ipython fails
print(text[0])
1 / 0
```

```output
b
...ZeroDivisionError: division by zero
```
"""


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def shutdown_servers() -> Iterator[None]:
    """End the default server that an example may have started."""
    yield
    _run([sys.executable, "-m", "execzmq", "shutdown", "--all"])


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline(50).left(),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shutdown_servers")
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.is_run for b in blocks(p.read_text()))], ids=_id)
def test_examples_of_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who follows the page from top to bottom sees what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = _run([sys.executable, "-m", "tests.examples", str(page)])
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("shutdown_servers")
@pytest.mark.parametrize("program", PROGRAMS, ids=_id)
def test_example_program(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example that is a file runs to its end."""
    monkeypatch.chdir(tmp_path)
    done = _run([sys.executable, str(program)])
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_data_of_page_is_well_formed(page: Path) -> None:
    """What a page shows as JSON or TOML is that."""
    parsers = {"json": json.loads, "toml": tomllib.loads}
    for block in blocks(page.read_text()):
        if block.language in parsers:
            parsers[block.language](block.text)


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_links_of_page_lead_somewhere(page: Path) -> None:
    """Each relative link names a file, and each anchor a heading of it."""
    dead = [match[0] for match in LINK.finditer(_prose(page)) if not _leads_somewhere(page, match)]
    assert not dead


def _leads_somewhere(page: Path, match: re.Match[str]) -> bool:
    target = (page.parent / match[1]).resolve() if match[1] else page
    if not target.exists():
        return False
    return not match[2] or target.suffix != ".md" or match[2][1:] in _anchors(target)


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("kind", KINDS)
def test_index_names_every_page(kind: str) -> None:
    """Every page of a kind stands in the index of that kind, and the index in that of the whole."""
    index = (DOCS / kind / "index.md").read_text()
    pages = {path.relative_to(DOCS / kind).as_posix() for path in (DOCS / kind).rglob("*.md")} - {"index.md"}
    assert not {page for page in pages if f"({page})" not in index}
    assert f"({kind}/index.md)" in (DOCS / "index.md").read_text()


def test_blocks_are_found_with_their_lines() -> None:
    """A fenced block has a language, options, its place and its text."""
    page = "one\n\n```python\nx = 1\n```\n\n```console status=3\n$ exit 3\n```\n"
    assert blocks(page) == [
        Block("python", "", 4, "x = 1\n"),
        Block("console", "status=3", 8, "$ exit 3\n"),
    ]


def test_console_block_splits_into_commands() -> None:
    """Lines after a `$` line are its output, those that begin with `>` go on with it."""
    block = Block("console", "", 1, "$ echo a\na\n$ cat <<END\n> b\n> END\nb\n")
    assert commands(block) == [("echo a", "a\n"), ("cat <<END\nb\nEND", "b\n")]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [("a\n", "a", True), ("a ... c", "a b\nb c", True), ("a.c", "abc", False), ("a", "a b", False)],
)
def test_expected_output_matches(expected: str, actual: str, same: bool) -> None:
    """Only `...` stands for something else, and blanks at ends of lines do not count."""
    assert matches(expected, actual) is same


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise ValueError\n```\n",
        "```python\nprint(1)\n```\n```output\n2\n```\n",
        "```console\n$ exit 3\n```\n",
        "```ipython\n1 / 0\n```\n",
        "```ipython fails\n1\n```\n",
        "```console\n$ echo a\nb\n```\n",
    ],
)
def test_false_example_fails(text: str, tmp_path: Path) -> None:
    """An example that fails, or prints something else than its page says, is found."""
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises((ExampleFailed, ValueError)):
        run_page(page)


def test_true_examples_pass(tmp_path: Path) -> None:
    """Blocks of a page share their names, may await, and a left-out block is not run."""
    page = tmp_path / "page.md"
    page.write_text(TRUE_PAGE)
    run_page(page)
