"""Clusters on this machine, whose nannies share one exec server; see `programs` for what is done there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execzmq import connection
from tests.cluster import programs
from tests.homes import another_home
from tests.support import deadline, program_env

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

LEFT = ("ResourceWarning", "never retrieved", "was destroyed but", "was never awaited")
"""What Python says of what a program has left lying about; no error can be raised where it notices."""


def told(folder: Path, *names: str) -> dict[str, Any]:
    """Do what the names say in a program in that folder; return what it tells, by their names."""
    argv = [sys.executable, "-W", "error", "-m", programs.__name__, *names]
    env = {**program_env(), "DASK_TEMPORARY_DIRECTORY": str(folder)}
    done = subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, timeout=deadline(100).left()
    )
    assert done.returncode == 0, done.stderr
    assert not [words for words in LEFT if words in done.stderr], done.stderr
    return {"stderr": done.stderr, **json.loads(done.stdout.splitlines()[-1])}


def states() -> list[Path]:
    """Return what is left of servers in the folder of their states."""
    return list(connection.state_folder("x").parent.glob("*"))


def test_the_command_line_and_connect_by_name(short_tmp: Path) -> None:
    """An environment of the kind `dask` is used as any other; who only looks starts no server."""
    said = told(short_tmp, "command_line")["command_line"]
    listing = said.pop("ps")[1].splitlines()
    status, output, errors = said.pop("unserved")
    assert (status, len(output.splitlines())) == (0, 1)
    assert "it has no exec server" in errors
    assert [line.split()[-2 - bool(n)] for n, line in enumerate(listing)] == ["HOST", os.uname().nodename]
    assert said == {
        "run": [3, "out\n", "err\n"],
        "resources": [0, "placed\n", ""],
        "info": ["sleeper", os.uname().nodename],
        "stopped": 0,
        "waited": 128 + signal.SIGTERM,
        "shutdown": [125, "", "execzmq: the servers of a Dask cluster end with it: close the cluster\n"],
        "doctor": 0,
        "connected": "from python\n",
    }
    assert states() == []


@pytest.fixture(scope="module")
def said() -> Iterator[dict[str, Any]]:
    """What a program tells that does on one cluster all that can be done there in turn."""
    names = ("everyday", "errors", "secrets", "a_server_is_killed", "a_worker_is_killed")
    with another_home() as root:
        folder = root / "t"
        folder.mkdir(mode=0o700)
        done = told(folder, *names, "nothing_is_started_late")
        yield {**done, "folder": folder, "states": states()}


def test_what_one_does_every_day(said: dict[str, Any]) -> None:
    """Run, start, attach, list and map; errors keep to their command; secrets are shown nowhere."""
    check_everyday(dict(said["everyday"]), said["folder"])
    assert "200/200" in said["stderr"]
    assert "100 failed" in said["stderr"]
    check_errors(said["errors"])
    assert said["secrets"] == {"found": []}


def test_a_server_that_is_killed(said: dict[str, Any]) -> None:
    """Its nanny starts another, which goes on with its commands; at the end nothing is left of them."""
    killed = said["a_server_is_killed"]
    assert killed == {"lines": list("123456"), "exit": 0, "another": True, "again": "on\n"}
    assert said["states"] == []


def check_everyday(said: dict[str, Any], folder: Path) -> None:
    """Find that all 200 commands had a place and told what they had to."""
    host = os.uname().nodename
    assert said.pop("map") == [[n % 2, f"{n}\n", host] for n in range(200)]
    assert said == {
        "run": [3, "out\n", "err\n"],
        "lines": ["hello"],
        "host": host,
        "found": True,
        "told": host,
        "exit": 0,
        "names": [host],
        "processes": 202,
        "cwd": f"{folder}\n",
        "same": True,
        "hosts": 1,
        "profiles": 3,
    }


def check_errors(said: dict[str, Any]) -> None:
    """Find that each command has met its own end."""
    assert said == {
        "results": [
            ["exited", 0, "NoneType"],
            ["failed", None, "CommandNotFound"],
            ["timed_out", -9, "TimeoutExpired"],
            ["signaled", -9, "NoneType"],
        ],
        "raised": [
            "CommandNotFound",
            "CalledProcessError",
            "ProcessNotFound",
            "Conflict",
            "InvalidState",
            "TypeError",
            "TypeError",
            "TypeError",
            "InvalidRequest",
            "TypeError",
            "TypeError",
        ],
        "checked": [[3, "CalledProcessError"], [0, "NoneType"]],
        "again": 0,
    }


def test_workers_that_are_killed(said: dict[str, Any]) -> None:
    """Commands go on without the worker that held their slot, and none is started twice, or late."""
    killed = said["a_worker_is_killed"]
    assert killed["results"] == [[0, f"c{n}\n"] for n in range(12)]
    assert killed["starts"] == [1] * 12
    assert said["nothing_is_started_late"] == {
        "interrupted": True,
        "left": [],
        "refused": ["ConnectionFailed", "ClientClosed"],
        "late": False,
        "again": "on\n",
    }


def test_the_backend_keeps_what_every_backend_promises(short_tmp: Path) -> None:
    """Each promise, but for two that are not those of a cluster."""
    said = told(short_tmp, "conformance")["conformance"]
    assert said["failed"] == {}
    assert said["kept"] > 50


def test_clusters_of_other_kinds(short_tmp: Path) -> None:
    """Coroutines in the loop of an asynchronous Dask client; no nannies; workers that come and go."""
    said = told(short_tmp, "twin", "without_nannies", "workers_come_and_go")
    assert said["without_nannies"] == {"stdout": [f"{n}\n" for n in range(8)]}
    assert said["workers_come_and_go"] == {
        "waited": "first\n",
        "left": ["terminated", "shutdown"],
        "without": ["ConnectionFailed", []],
        "again": "on\n",
        "another": True,
    }
    assert said["twin"] == {
        "stdout": "hi\n",
        "lines": ["there"],
        "cancelled": "CancelledError",
        "never": False,
        "codes": [1, 2],
        "tasks": 0,
    }
    assert states() == []


def test_preloads_and_nannies_that_are_killed(short_tmp: Path) -> None:
    """The server outlives the first nanny, not the last, and ends its commands; nothing of it is left."""
    said = told(short_tmp, "preloads")["preloads"]
    assert said == {"echoed": "on\n", "same": True, "cause": "terminated", "by": "shutdown"}
    assert states() == []
