"""The public names are what `__all__` says, to users and type checkers alike, and cheap to import."""

import ast
import importlib
import inspect
import json
import subprocess

import pytest

import execzmq
from tests.sources import PACKAGE, parse
from tests.support import child

PROMISED = {
    *("connect", "aconnect", "local", "run", "start", "attach", "Popen", "INHERIT"),
    *("Started", "Output", "Exited", "Closed", "Failed", "Notice", "Gap"),
    *("ExecBackend", "ExecProcess", "ExecParams", "EnvPolicy", "TtySize", "Limits"),
    *("ReadResponse", "ProcessInfo", "ServerInfo", "ExitResult", "TerminateReport"),
    *("ExecZMQError", "CommandNotFound", "NotExecutable", "ProcessNotFound"),
}

LAZINESS = {"annotations", "import_module", "TYPE_CHECKING", "Any"}
"""What `__init__.py` itself needs to be lazy."""

HOOKS = {"load_ipython_extension", "unload_ipython_extension"}
"""What IPython asks the package for."""

HEAVY = (
    *("pydantic", "jupyter_client", "jupyter_core", "rich", "psutil", "zmq.asyncio", "tornado", "IPython"),
    *("distributed", "dask"),
)


def _loaded_by(statement: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter holds after `statement`."""
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(child(code), capture_output=True, text=True, check=True, timeout=30)
    return set(json.loads(done.stdout))


def _names_for_type_checkers() -> set[str]:
    """Return the names that `__init__.py` imports for type checkers alone."""
    blocks = [node for node in parse(PACKAGE / "__init__.py").body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_promised_names_are_public() -> None:
    """Every name of the documented surface is exported."""
    assert set(execzmq.__all__) >= PROMISED


@pytest.mark.parametrize("name", execzmq.__all__)
def test_public_name_resolves(name: str) -> None:
    """Each public name exists, and each public class and function says what it is for."""
    value = getattr(execzmq, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)


def test_unknown_name_is_an_attribute_error() -> None:
    """A misspelled name fails as in any module."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = execzmq.no_such_name  # type: ignore[attr-defined]  # the point of the test


def test_dir_lists_the_public_names() -> None:
    """Completion sees all public names although they are loaded later."""
    assert set(execzmq.__all__) <= set(dir(execzmq))


def test_type_checkers_see_the_same_names() -> None:
    """The lazy names and those that type checkers read are one set."""
    eager = {name for name in execzmq.__all__ if name.startswith("__")}
    assert _names_for_type_checkers() | eager == set(execzmq.__all__)


def test_nothing_else_is_public() -> None:
    """Importing the package puts no helper or module into its public name space."""
    code = "import execzmq, json; print(json.dumps([n for n in vars(execzmq) if not n.startswith('_')]))"
    done = subprocess.run(child(code), capture_output=True, text=True, check=True, timeout=30)
    assert set(json.loads(done.stdout)) <= {*execzmq.__all__, *LAZINESS, *HOOKS}


def test_package_is_typed() -> None:
    """Type checkers of users read our annotations."""
    assert (PACKAGE / "py.typed").exists()


def test_version_is_that_of_the_package() -> None:
    """There is one version, whoever asks."""
    version = importlib.import_module("importlib.metadata").version("execzmq")
    assert execzmq.__version__ == version


def test_import_of_the_package_loads_nothing() -> None:
    """`import execzmq` costs next to nothing: no other module of ours, none of others."""
    loaded = _loaded_by("import execzmq")
    assert {name for name in loaded if name.startswith("execzmq")} == {"execzmq"}
    assert loaded.isdisjoint({*HEAVY, "asyncio", "zmq", "msgpack", "click"})


@pytest.mark.parametrize("module", ["execzmq.cli.main", "execzmq.api", "execzmq.client.sync"])
def test_client_side_imports_are_light(module: str) -> None:
    """A command line or a client that starts pays for no package that only the server needs."""
    assert _loaded_by(f"import {module}").isdisjoint(HEAVY)


def test_keeper_loads_the_standard_library_only() -> None:
    """The keeper holds no module of others, and of ours only its own."""
    loaded = _loaded_by("import execzmq.keeper.main")
    assert loaded.isdisjoint({*HEAVY, "asyncio", "zmq", "msgpack", "click"})
    ours = {name for name in loaded if name.startswith("execzmq.")}
    assert all(name.startswith("execzmq.keeper") for name in ours)
