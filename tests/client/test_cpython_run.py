"""CPython's own tests of `subprocess.run`, with ours in its place."""

import importlib
import importlib.util
import subprocess
import types
import unittest
from collections.abc import Iterator
from typing import Any

import pytest

from execzmq.client.popen import Popen
from execzmq.client.sync import Client
from tests.client.clients import open_client

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("default"),  # their tests leave files to the collector
    pytest.mark.skipif(
        importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_subprocess") is None,
        reason="this interpreter is shipped without test.test_subprocess",
    ),
]


@pytest.fixture
def client(no_leaks: None) -> Iterator[Client]:
    with open_client() as client:
        yield client


def in_place_of_subprocess(client: Client) -> types.ModuleType:
    """Return a `subprocess` whose `run` and `Popen` are those of a client."""

    def run(*args: Any, capture_output: bool = False, **options: Any) -> Any:
        return client.run(*args, capture_output=capture_output, **options)

    def popen(*args: Any, **options: Any) -> Popen:
        return Popen(*args, client=client, **options)

    shim = types.ModuleType("subprocess")
    shim.__dict__.update(vars(subprocess), run=run, Popen=popen)
    return shim


def test_run_func_test_case_passes_whole(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of `RunFuncTestCase` passes."""
    theirs = importlib.import_module("test.test_subprocess")
    support = importlib.import_module("test.support")
    monkeypatch.setattr(theirs, "subprocess", in_place_of_subprocess(client))
    monkeypatch.setattr(support, "use_resources", None)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(theirs.RunFuncTestCase)
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 20
    assert [text for _, text in result.errors + result.failures] == []
