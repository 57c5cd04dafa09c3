"""The start by vfork alone: what fails is named and leaves nothing, and an unknown Python does without it."""

import os
from pathlib import Path

import pytest

from execzmq.keeper import spawn as spawning
from execzmq.keeper import vfork
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.spawn import spawn
from execzmq.keeper.tree import descendants
from tests.keeper.harness import launch, shell
from tests.keeper.test_spawn import finish, open_fds


def test_refusal_leaves_no_process_and_no_descriptor() -> None:
    """A program that cannot be executed has been reaped when its name is told."""
    before = open_fds()
    with pytest.raises(SpawnError) as refused:
        vfork.start(launch("/etc/passwd"), {0: 0, 1: 1, 2: 2}, None)
    assert refused.value.reason == "not_executable"
    assert open_fds() == before
    assert not descendants(os.getpid())


def test_later_folder_of_path_is_tried() -> None:
    """Neither a missing folder nor a file that may not be executed ends the search."""
    wanted = launch("sh", "-c", "exit 7", env={b"PATH": b"/no/such:/etc/passwd:/usr/bin:/bin"})
    assert finish(spawn(wanted, {})).status == 7


def test_descriptors_are_had_at_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is passed is where the command wants it, and nothing of it stays here."""
    monkeypatch.delattr(spawning, "_start_forked")
    before = open_fds()
    reader, writer = os.pipe()
    os.write(writer, b"passed")
    os.close(writer)
    wanted = launch("cat", "/proc/self/fd/600", passed={"it": 600})
    done = finish(spawn(wanted, {"it": reader}))
    os.close(reader)
    assert (done.status, done.out) == (0, b"passed")
    assert open_fds() == before


def test_number_that_is_taken_here_is_had_by_fork() -> None:
    """The keeper's own descriptor of that number stays what it is."""
    reader, writer = os.pipe()
    os.write(writer, b"passed")
    os.close(writer)
    taken = os.memfd_create("taken")
    wanted = launch("cat", f"/proc/self/fd/{taken}", passed={"it": taken})
    assert not vfork.can_start(wanted, {0: 0, 1: 1, 2: 2, taken: reader})
    done = finish(spawn(wanted, {"it": reader}))
    assert (done.status, done.out) == (0, b"passed")
    assert "taken" in os.readlink(f"/proc/self/fd/{taken}")
    os.close(taken)
    os.close(reader)


def test_unknown_python_starts_by_fork(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    """Where the function's arguments may have changed it is not called, and commands start all the same."""
    monkeypatch.setattr(vfork, "IS_KNOWN", False)
    monkeypatch.delattr(vfork, "start")
    done = finish(spawn(shell("pwd; exit 3", cwd=os.fsencode(short_tmp)), {}))
    assert (done.status, done.out) == (3, os.fsencode(short_tmp) + b"\n")
