"""Rules for every file: nothing of one machine in it; tests say what they test and do not sleep."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import MODULES, PACKAGE, ROOT, name_of, parse

# Written so that this file does not hold what it looks for.
MACHINE = re.compile(rb"/(?:work|root)/|/(?:Users|home/runner)/")
REGISTRY = re.compile(
    rb"pypi\.[o]rg|pythonhosted\.[o]rg|npmjs\.[o]rg|anaconda\.[o]rg|[-]-(?:extra-)?index-url|[-]-trusted-host"
)
UNFINISHED = re.compile(rb"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
BARE_NOQA = re.compile(rb"# no[q]a(?!: ?[A-Z])")

# What others have written is there as they built it.
VENDORED = PACKAGE / "notebook" / "static" / "xterm"

TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def _tracked() -> list[Path]:
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are ours is not known")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = (ROOT / name for name in listing.decode().split("\0") if name)
    return [path for path in paths if path.is_file() and VENDORED not in path.parents]


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY, UNFINISHED, BARE_NOQA], ids=lambda p: p.pattern[:12])
def test_no_tracked_file_holds(pattern: re.Pattern[bytes]) -> None:
    """No file names a machine's own path or a registry, is unfinished, or silences a linter wholesale."""
    found = {str(path.relative_to(ROOT)) for path in _tracked() if pattern.search(path.read_bytes())}
    assert not found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_owns(path: Path) -> None:
    """Each module begins with what it owns and what it must not know."""
    assert ast.get_docstring(parse(path)) or not path.read_text().strip()


def _tests_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT / "tests"))


@pytest.mark.parametrize("path", TESTS, ids=_id)
def test_tests_say_what_they_test(path: Path) -> None:
    """Each test states the behaviour in its docstring."""
    assert not [node.name for node in _tests_of(path) if not ast.get_docstring(node)]


@pytest.mark.parametrize("path", [p for p in TESTS if "benchmarks" not in p.parts], ids=_id)
def test_tests_do_not_sleep(path: Path) -> None:
    """No test sleeps for what it hopes is long enough; `asyncio.sleep(0)` only lets others run."""
    calls = [ast.unparse(node) for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    slept = [c for c in calls if c.startswith(("time.sleep(", "asyncio.sleep(")) and c != "asyncio.sleep(0)"]
    assert not slept
