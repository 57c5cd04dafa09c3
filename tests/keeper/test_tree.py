"""Ancestry as /proc shows it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from execzmq.keeper.tree import descendants, is_descendant, kill_descendants, parent_of

Family = tuple[int, int]


@pytest.fixture
def family() -> Iterator[Family]:
    """A child whose name is made to mislead a parser, and its child."""
    code = "printf 'x) S 1 (' >/proc/self/comm; sleep 60 & echo $!; wait"
    child = subprocess.Popen(["/bin/sh", "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    yield child.pid, int(child.stdout.readline())
    kill_descendants(os.getpid())
    child.wait()
    child.stdout.close()


def test_parents(family: Family) -> None:
    """A process's parent is found whatever its name is; a dead one has none."""
    child, grandchild = family
    assert parent_of(grandchild) == child
    assert parent_of(child) == os.getpid()
    assert parent_of(2**22 - 1) == 0


def test_descendants(family: Family) -> None:
    """Everyone below is found, and nobody else."""
    child, grandchild = family
    assert set(descendants(os.getpid())) == {child, grandchild}
    assert is_descendant(grandchild, os.getpid())
    assert not is_descendant(os.getpid(), child)


def test_kill_descendants(family: Family) -> None:
    """All are killed; whether anyone was there is told."""
    child, grandchild = family
    assert not kill_descendants(child)
    os.waitpid(child, 0)  # it waits for its own child, and no longer
    assert parent_of(grandchild) == 0
