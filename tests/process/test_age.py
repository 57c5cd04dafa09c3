"""How long a process has lived."""

import os
import subprocess
import time

import pytest

from execzmq.process.age import age_of


def test_age_of_a_child() -> None:
    """It is counted from its start, by the kernel's clock."""
    before = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as child:
        age = age_of(child.pid)
        child.kill()
    assert age is not None
    assert 0.0 <= age <= time.monotonic() - before + 0.1
    parents = age_of(os.getpid())
    assert parents is not None
    assert parents > age


def test_no_age() -> None:
    """One that is gone has none."""
    with subprocess.Popen(["true"]) as child:
        pass
    assert age_of(child.pid) is None


def test_the_wall_clock_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says."""
    before = age_of(os.getpid())
    monkeypatch.setattr(time, "time", lambda: 0.0)
    after = age_of(os.getpid())
    assert before is not None
    assert after is not None
    assert before <= after <= before + 5.0


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then for the caller to guess."""
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert age_of(os.getpid()) is None
