"""Imports point down only, and what is pure stays pure: a test, not a habit."""

import graphlib
import sys
from pathlib import Path

import pytest

from tests.sources import MODULES, PACKAGE, dotted, imported, imported_anywhere, name_of

ALLOWED = {
    "errors": "",
    "settings": "errors",
    "aside": "",
    "types": "errors",
    "connection": "errors types settings",
    "zmqloop": "errors settings",
    "holders": "errors",
    "modes": "",
    "protocol": "errors types settings",
    "keeper": "",
    "process": "errors types settings modes keeper",
    "sandbox": "errors types settings aside",
    "backends": "errors types settings connection aside process keeper sandbox",
    "server": "errors types settings connection aside zmqloop protocol process keeper sandbox backends",
    "client": "errors types settings connection zmqloop protocol",
    "environments": "errors types settings connection client",
    "api": "errors types settings connection client environments",
    "cluster": "errors types settings connection holders client",
    "notebook": "errors types settings connection client environments api",
    "cli": "errors types settings connection holders modes client environments api",
    "__init__": "",
    "__main__": "cli",
}
"""Top-level module → those of ours that it may import when it is loaded; functions may import more."""

NEVER = {
    "client": "process keeper sandbox backends server environments cluster cli notebook",
    "cluster": "process keeper sandbox backends server environments protocol cli notebook",
    "environments": "process keeper sandbox server cli api protocol notebook",
    "sandbox": "process keeper backends server client environments cli api protocol notebook",
    "notebook": "process keeper sandbox backends server cluster protocol cli",
    "server": "client environments cli api notebook",
    "process": "server client environments cli api backends protocol notebook",
    "protocol": "process keeper sandbox backends server client environments cli api notebook",
    "keeper": "errors types settings connection zmqloop protocol process sandbox backends server client "
    "environments api cli notebook",
}
"""Top-level module → those of ours that it may not import anywhere, not even inside a function."""

FOREIGN = {
    "errors": "asyncio zmq pydantic msgpack psutil rich click",
    "settings": "asyncio zmq pydantic msgpack psutil rich click",
    "types": "asyncio zmq pydantic msgpack psutil rich click",
    "connection": "asyncio zmq pydantic rich click",
    "protocol": "pydantic psutil rich click jupyter_client jupyter_core",
    "modes": "asyncio zmq pydantic msgpack psutil rich click",
    "process": "zmq pydantic rich click",
    "sandbox": "zmq rich click psutil",
    "server": "click rich",
    "client": "pydantic rich click psutil jupyter_client jupyter_core distributed dask",
    "environments": "zmq pydantic rich click psutil jupyter_client jupyter_core distributed dask",
    "api": "pydantic rich click psutil jupyter_client jupyter_core distributed dask",
    "cluster": "zmq pydantic rich click psutil jupyter_client jupyter_core",
    "notebook": "zmq pydantic rich click psutil jupyter_client jupyter_core distributed dask",
    "cli": "zmq pydantic rich psutil jupyter_client jupyter_core distributed dask",
}
"""Top-level module → packages of others that it may not import when it is loaded."""

PURE = (
    "errors.py",
    "settings.py",
    "types/",
    "modes.py",
    "protocol/",
    "client/notices.py",
    "cluster/tickets.py",
    "environments/file.py",
    "environments/model.py",
    "environments/ssh_words.py",
    "notebook/ansi.py",
    "notebook/arguments.py",
    "notebook/asking.py",
    "notebook/bars.py",
    "notebook/capping.py",
    "notebook/expanding.py",
    "notebook/flow.py",
    "notebook/record.py",
    "notebook/script.py",
    "notebook/terminal_requests.py",
    "notebook/view_requests.py",
    "process/lifecycle.py",
    "process/environ.py",
    "process/index.py",
    "process/held.py",
    "process/retention.py",
    "process/emulator.py",
    "process/guess.py",
    "sandbox/access.py",
    "sandbox/addresses.py",
    "sandbox/applied.py",
    "sandbox/bwrap.py",
    "sandbox/cgroup_plan.py",
    "sandbox/checker.py",
    "sandbox/ending.py",
    "sandbox/hosts.py",
    "sandbox/layers.py",
    "sandbox/model.py",
    "sandbox/mountinfo.py",
    "sandbox/narrowing.py",
    "sandbox/planning.py",
    "sandbox/plans.py",
    "sandbox/profile_file.py",
    "sandbox/profiles.py",
    "sandbox/remedies.py",
    "sandbox/requesting.py",
    "sandbox/rules.py",
    "sandbox/seatbelt.py",
    "sandbox/seccomp.py",
    "sandbox/setup_errors.py",
    "sandbox/sight.py",
    "sandbox/slirp.py",
    "sandbox/toml_keys.py",
    "sandbox/verdict.py",
    "sandbox/wordings.py",
)
IMPURE = {"asyncio", "zmq", "socket", "subprocess", "threading", "selectors", "time"}


def _top(path: Path) -> str:
    return name_of(path).removesuffix(".py").split("/")[0]


def _ours(name: str) -> str | None:
    """Return the top-level module of ours that an import names, if it is one of ours."""
    package, _, rest = name.partition(".")
    return rest.split(".")[0] if package == PACKAGE.name and rest else None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    """A module imports at load only what its layer may know."""
    own = _top(path)
    assert own in ALLOWED, f"give {own} a place among the layers"
    permitted = {own, *ALLOWED[own].split()}
    targets = {target for name in imported(path) if (target := _ours(name))}
    assert targets <= permitted, f"{own} must not import {targets - permitted}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_never_imports(path: Path) -> None:
    """Some parts do not know each other, in functions and type annotations neither."""
    forbidden = set(NEVER.get(_top(path), "").split())
    assert forbidden.isdisjoint(target for name in imported_anywhere(path) if (target := _ours(name)))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_foreign_packages(path: Path) -> None:
    """A module loads no package of others that its layer has no business with."""
    forbidden = set(FOREIGN.get(_top(path), "").split())
    assert forbidden.isdisjoint(name.partition(".")[0] for name in imported(path))


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p).startswith(PURE)], ids=name_of)
def test_pure_modules_do_no_io(path: Path) -> None:
    """What decides does not act: no loop, socket, child, thread or clock in the pure modules."""
    packages = {name.partition(".")[0] for name in imported_anywhere(path)}
    assert not packages & IMPURE


@pytest.mark.parametrize("path", [p for p in MODULES if _top(p) == "keeper"], ids=name_of)
def test_keeper_is_standard_library_only(path: Path) -> None:
    """The keeper starts in milliseconds and survives an upgrade: it needs nothing but the interpreter."""
    packages = {name.partition(".")[0] for name in imported_anywhere(path)}
    assert packages <= sys.stdlib_module_names | {PACKAGE.name}
    if path.name not in {
        "asking.py",
        "client.py",
        "farewells.py",
        "outbox.py",
        "outcome.py",
        "pending.py",
        "start.py",
    }:
        assert "asyncio" not in packages


def test_no_import_cycle() -> None:
    """No two modules need each other to be loaded."""
    known = {dotted(path) for path in MODULES}
    graph = {dotted(path): {n for n in imported(path) if n in known} - {dotted(path)} for path in MODULES}
    graphlib.TopologicalSorter(graph).prepare()
