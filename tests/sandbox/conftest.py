"""What the tests of sandboxes share: each bubblewrap that is here, and root beside an ordinary user."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.sandbox import wrapper
from tests.sandbox.inside import as_user

NOBODY = 65534


@pytest.fixture(scope="session")
def shared() -> Iterator[Path]:
    """A folder that every user may read."""
    with tempfile.TemporaryDirectory(prefix="execzmq-shared-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def bubblewraps(shared: Path) -> dict[str, str]:
    """The bubblewraps of this machine by where they come from, at paths that every user may run."""
    paths = list(wrapper.known())
    system = [path for path in wrapper.SYSTEM if os.path.exists(path)]
    found = {"system": system[0]} if system else {}
    if len(paths) > len(wrapper.SYSTEM):
        package = Path(paths[-1]).parents[1]
        for name in (package.name, f"{package.name}.libs"):
            shutil.copytree(package.parent / name, shared / name)
        found["wheel"] = str(shared / Path(paths[-1]).relative_to(package.parent))
    return found


@pytest.fixture(params=["system", "wheel"])
def bwrap(request: pytest.FixtureRequest, bubblewraps: dict[str, str]) -> str:
    """The path of one bubblewrap."""
    if request.param not in bubblewraps:
        pytest.skip(f"this machine has no bubblewrap of the {request.param}")
    return bubblewraps[request.param]


@pytest.fixture(params=[0, NOBODY], ids=["root", "nobody"])
def uid(request: pytest.FixtureRequest) -> int:
    """A user as whom a sandbox is made."""
    if os.geteuid() != 0 and request.param == 0:
        pytest.skip("only root can try what holds for root")
    return int(request.param) if os.geteuid() == 0 else os.geteuid()


@pytest.fixture
def workspace(uid: int, shared: Path) -> Iterator[Path]:
    """A folder that the user of the test owns."""
    with tempfile.TemporaryDirectory(dir=shared) as name:
        os.chown(name, uid, -1)
        yield Path(name)


@pytest.fixture(scope="session")
def python() -> str:
    """A Python that every user may run, with its standard library alone."""
    base = os.path.join(sys.base_prefix, "bin", "python3")
    for path in (sys.executable, base, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if path and _runs_for_nobody(os.path.realpath(path)):
            return os.path.realpath(path)
    pytest.skip("no Python here can be run by an ordinary user")


def _runs_for_nobody(path: str) -> bool:
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    command = [path, "-I", "-S", "-c", "import ctypes"]
    try:
        return bool(subprocess.run(command, env={}, cwd="/", **as_user(uid)).returncode == 0)
    except OSError:
        return False
