"""Read the package's own source as syntax trees, for tests of how it is built. Imports none of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "execzmq"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the path of a source file relative to the package, such as `protocol/wire.py`."""
    return path.relative_to(PACKAGE).as_posix()


def dotted(path: Path) -> str:
    """Return the module's import name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(path.read_text(), str(path))


def imported(path: Path) -> Iterator[str]:
    """Yield what a module imports when it is loaded: not in functions, not for type checkers alone."""
    yield from _names(_at_load(parse(path).body), path)


def imported_anywhere(path: Path) -> Iterator[str]:
    """Yield whatever a module imports, also later or for type checkers alone."""
    yield from _names(ast.walk(parse(path)), path)


def _at_load(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _at_load(node.orelse if _is_type_checking(node.test) else node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _at_load(node.body + node.orelse + node.finalbody)
            yield from _at_load([statement for handler in node.handlers for statement in handler.body])
        else:
            yield node


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _names(nodes: Iterator[ast.AST], path: Path) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: absolute imports only"
            yield from _from_names(node)


def _from_names(node: ast.ImportFrom) -> Iterator[str]:
    """Yield the module itself, or, where the names are modules of ours, those."""
    module = node.module or ""
    folder = ROOT.joinpath(*module.split("."))
    if module.partition(".")[0] != PACKAGE.name or not folder.is_dir():
        yield module
        return
    for alias in node.names:
        is_module = folder.joinpath(f"{alias.name}.py").exists() or folder.joinpath(alias.name).is_dir()
        yield f"{module}.{alias.name}" if is_module else module
