"""Whether anybody still needs a control group, by its label."""

import os
import subprocess
from pathlib import Path

import pytest

from execzmq.sandbox.cgroup_owner import claim, is_abandoned


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Labels by path: not every file system keeps them."""
    found: dict[str, bytes] = {}

    def get(path: str, name: str) -> bytes:
        if path not in found:
            raise OSError("no label")
        return found[path]

    monkeypatch.setattr(os, "setxattr", lambda path, name, value: found.update({path: value}))
    monkeypatch.setattr(os, "getxattr", get)
    return found


def test_needed_until_its_process_has_ended(
    labels: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is dead and not waited for needs nothing either."""
    group = str(tmp_path)
    claim(group)
    assert not is_abandoned(group)
    with subprocess.Popen(["sleep", "1000"]) as owner:
        monkeypatch.setattr(os, "getpid", lambda: owner.pid)
        claim(group)
        assert not is_abandoned(group)
        owner.kill()
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
        assert is_abandoned(group)
    assert is_abandoned(group)


def test_number_that_came_back(labels: dict[str, bytes], tmp_path: Path) -> None:
    """Another process of the number of the one that needed it does not need it."""
    group = str(tmp_path)
    claim(group)
    pid, _, namespace = labels[group].split()
    labels[group] = b"%s 1 %s" % (pid, namespace)
    assert is_abandoned(group)


def test_what_cannot_be_told_is_needed(
    labels: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No label, one of another container or of somebody else: nobody here knows whose process that is."""
    group = str(tmp_path)
    assert not is_abandoned(group)
    for label in (b"", b"x y z", b"%d 1 pid:[1]" % os.getpid()):
        labels[group] = label
        assert not is_abandoned(group)
    claim(group)
    pid, _, namespace = labels[group].split()
    labels[group] = b"%s 1 %s" % (pid, namespace)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_abandoned(group)
