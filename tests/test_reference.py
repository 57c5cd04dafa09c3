"""The reference of Python, errors and settings names what the code has, no more and no less."""

import builtins
import dataclasses
import re
from typing import Any

import pytest

import execzmq
from execzmq import errors, settings
from execzmq.client.arguments import CommonOptions, StartOptions
from execzmq.client.plan import RunOptions
from execzmq.client.terms import ShareOptions
from tests.sources import ROOT

REFERENCE = ROOT / "docs/reference"
CODE = re.compile(r"`([A-Za-z_]\w*)(?:\(.*?\))?`")
RECORDS = sorted(
    name for name in execzmq.__all__ if dataclasses.is_dataclass(getattr(execzmq, name))
)  # each has a section with a row for each field
CLASSES = ("Client", "Process", "Popen", "ExecBackend", "ExecProcess")
UNITS = {"KIB", "MIB", "GIB"}


def _section(page: str, heading: str) -> str:
    """Return the text under a heading of any level, down to the next heading."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section {heading}"
    return found[1]


def _rows(text: str) -> list[list[str]]:
    """Return the cells of all tables in a text, without heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
    return [[cell.strip() for cell in row] for row in cells]


def _named(page: str, heading: str) -> set[str]:
    """Return the names in the first column of the tables of a section."""
    return {name for row in _rows(_section(page, heading)) for name in CODE.findall(row[0])}


def _public(cls: type[Any]) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.fixture(scope="module")
def python_page() -> str:
    return (REFERENCE / "python.md").read_text()


@pytest.fixture(scope="module")
def errors_page() -> str:
    return (REFERENCE / "errors.md").read_text()


def test_every_public_name_is_in_the_reference(python_page: str, errors_page: str) -> None:
    """Names and exceptions together are what `execzmq` exports."""
    names = {
        name for row in _rows(_section(python_page, "All names")) for name in re.findall(r"`(\w+)`", row[0])
    }
    exceptions = {name for row in _rows(_section(errors_page, "The tree")) for name in CODE.findall(row[0])}
    assert names | exceptions == set(execzmq.__all__)
    assert not names & exceptions


@pytest.mark.parametrize("name", RECORDS)
def test_fields_of_record_are_in_the_reference(name: str, python_page: str) -> None:
    """A record's section has a row for each field and each property."""
    record = getattr(execzmq, name)
    properties = {key for key, value in vars(record).items() if isinstance(value, property)}
    assert _named(python_page, name) == {one.name for one in dataclasses.fields(record)} | properties


@pytest.mark.parametrize("name", CLASSES)
def test_members_of_class_are_in_the_reference(name: str, python_page: str) -> None:
    """A class's section has a row for each public member, and for those of its instances."""
    members = _public(getattr(execzmq, name))
    instance = {"args", "stdin", "stdout", "stderr", "returncode", "result"} if name == "Popen" else set()
    shown = _named(python_page, name)
    raised = {one for one in shown if hasattr(errors, one)}
    assert shown - raised == members | instance


@pytest.mark.parametrize(("blocking", "twin"), [("Client", "AsyncClient"), ("Process", "AsyncProcess")])
def test_async_twin_has_the_same_methods(blocking: str, twin: str) -> None:
    """What the reference says of one holds for the other, but for what is named there."""
    own = {"aio", "portal", "open", "is_usable", "close"}
    async_own = {"aclose", "backend", "caller"}
    assert _public(getattr(execzmq, blocking)) - own == _public(getattr(execzmq, twin)) - async_own


@pytest.mark.parametrize(
    ("heading", "options", "inherited"),
    [
        ("run", RunOptions, CommonOptions),
        ("start", StartOptions, CommonOptions),
        ("Keywords of run, start and Popen", CommonOptions, None),
        ("Keywords of share", ShareOptions, None),
    ],
)
def test_keywords_are_in_the_reference(
    heading: str, options: type[Any], inherited: type[Any] | None, python_page: str
) -> None:
    """Each keyword has a row, once."""
    common = set(inherited.__annotations__) if inherited else set()
    assert _named(python_page, heading) == set(options.__annotations__) - common


def test_errors_stand_in_their_tree(errors_page: str) -> None:
    """Each exception is under its own kind, beside the standard exception that it also is."""
    path: list[str] = []
    for first, second, _ in _rows(_section(errors_page, "The tree"))[1:]:
        (name,) = CODE.findall(first)
        depth = first.count("·")
        path = [*path[:depth], name]
        bases = [base.__name__ for base in getattr(errors, name).__bases__]
        assert bases == [*path[-2:-1], *CODE.findall(second)], name
        assert all(hasattr(builtins, base) for base in CODE.findall(second))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def test_settings_have_these_values() -> None:
    """Each constant is in the reference, with its value."""
    rows = _rows((REFERENCE / "settings.md").read_text().partition("## Built in")[2])
    shown = {CODE.findall(row[0])[0]: row[1] for row in rows if CODE.findall(row[0])}
    constants = {name: _shown(value) for name, value in vars(settings).items() if name.isupper()}
    assert shown.keys() == constants.keys() - UNITS
    assert not {
        name: text for name, text in shown.items() if not f"{text} ".startswith(f"{constants[name]} ")
    }


def test_what_a_server_is_told_has_these_defaults() -> None:
    """Each field of `Settings` is in the reference, with its default."""
    rows = _rows(_section((REFERENCE / "settings.md").read_text(), "What a server is told"))[1:]
    shown = {CODE.findall(row[0])[0]: row[1] for row in rows}
    fields = {one.name: one.default for one in dataclasses.fields(settings.Settings)}
    assert shown.keys() == fields.keys()
    for name, default in fields.items():
        assert shown[name].startswith("no limit" if default is None else _shown(default))
