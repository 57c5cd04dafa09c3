"""Nothing grows into a heap: caps on modules, classes and functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import MODULES, name_of, parse

MODULE_LINES = 450
CLASS_LINES = 300
FUNCTION_LINES = 50

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_lines(node: Function) -> int:
    return _lines(node.body[0]) if ast.get_docstring(node) is not None else 0


def _too_long(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef) and _lines(node) > CLASS_LINES:
            yield f"{path.name}:{node.lineno}: class {node.name} has {_lines(node)} lines, cap {CLASS_LINES}"
        elif isinstance(node, Function) and (lines := _lines(node) - _docstring_lines(node)) > FUNCTION_LINES:
            yield f"{path.name}:{node.lineno}: {node.name} has {lines} lines, cap {FUNCTION_LINES}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_small(path: Path) -> None:
    """A module fits into one head."""
    assert len(path.read_text().splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_and_classes_are_small(path: Path) -> None:
    """A function does one thing, a class owns one thing."""
    assert not list(_too_long(path))
