"""What takes two users: the attempts of an ordinary one, and mounts that root makes meanwhile."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from tests.escapes.other_user import UID, Copy, other_user
from tests.escapes.site import base_folder
from tests.support import REPOSITORY

SECONDS = 400.0
_WITH_MOUNTS = 'mount --make-rshared / && exec setpriv --reuid=$0 --regid=$0 --clear-groups "$@"'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    """A copy of all this for an ordinary user."""
    with other_user() as found:
        yield found


@pytest.fixture
def by_root() -> None:
    """Root alone can be two users."""
    if os.geteuid() != 0:
        pytest.skip("what sandboxes of a server of root's hold, and new mounts: run `make test` as root")


@pytest.mark.usefixtures("by_root")
def test_attempts_of_an_ordinary_user(request: pytest.FixtureRequest) -> None:
    """All attempts of this folder, made by commands of a server that an ordinary user runs.

    An ordinary user who runs the tests has made them already, and cannot make those of root.
    """
    _passes(request.getfixturevalue("copy"), "tests/escapes")


@pytest.mark.usefixtures("by_root")
def test_everyday_work_of_an_ordinary_user(request: pytest.FixtureRequest) -> None:
    """What root's commands can do in a sandbox those of others can too."""
    _passes(request.getfixturevalue("copy"), "tests/sandbox/test_everyday.py")


def _passes(copy: Copy, tests: str) -> None:
    """Run tests as the ordinary user: some must pass, and none may fail."""
    options = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-o", "timeout=120")
    done = copy.run("-m", "pytest", *options, tests, seconds=SECONDS)
    assert done.returncode == 0, done.stdout[-8000:]
    assert re.search(r"^\d+ passed", done.stdout, re.M), done.stdout[-8000:]


@pytest.mark.usefixtures("by_root")
@pytest.mark.parametrize("uid", [0, UID])
def test_mounts_that_come_later_are_not_there(request: pytest.FixtureRequest, uid: int) -> None:
    """What is mounted on the host while a command runs, as a disk that is plugged in, it cannot write to.

    On hosts whose mounts are shared, as systemd has them, copies of them go on getting what is mounted.
    """
    env, tree, python = dict(os.environ), REPOSITORY, sys.executable
    if uid != 0:
        copy: Copy = request.getfixturevalue("copy")
        env, tree, python = copy.env, copy.top / "tree", str(copy.program)
    words = ["unshare", "-m", "--propagation", "private", "sh", "-c", _WITH_MOUNTS, str(uid)]
    place = tempfile.mkdtemp(prefix="xz-", dir=base_folder())
    os.chmod(place, 0o755)
    with subprocess.Popen(
        [*words, python, "-m", "tests.escapes.late", place],
        env=env,
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        enter = ["nsenter", "-t", str(process.pid), "-m"]
        subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", "mode=777", "none", place], check=True)
        process.stdin.write("\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert process.wait(60) == 0
    os.rmdir(place)
    assert "ready" in answer
    assert "through" not in answer
