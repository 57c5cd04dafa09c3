"""The check that follows every test finds what it is for, and nothing else."""

import dataclasses
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from tests import leaks
from tests.support import child, ms

HOLD = "print('ready', flush=True); input()"


@pytest.fixture
def before() -> leaks.Snapshot:
    """What is there before the test makes anything."""
    return leaks.take()


def _found(before: leaks.Snapshot, home: Path) -> str:
    return "\n".join(leaks.find(before, home, seconds=ms(20)))


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A child that lives until its stdin ends."""
    with subprocess.Popen(child(HOLD), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.communicate()


def test_nothing_is_found_where_nothing_was_left(before: leaks.Snapshot, home_root: Path) -> None:
    """A test that cleans up is not blamed."""
    with open(os.devnull), zmq.Context.instance().socket(zmq.PAIR):
        pass
    subprocess.run(["true"], check=True)
    assert not leaks.find(before, home_root)


def test_open_descriptor_is_found(before: leaks.Snapshot, home_root: Path) -> None:
    """A descriptor is named with what it leads to."""
    with open(os.devnull) as file:
        assert f"descriptor {file.fileno()}: {os.devnull}" in _found(before, home_root)


def test_thread_is_found(before: leaks.Snapshot, home_root: Path) -> None:
    """A thread is named."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="stray")
    thread.start()
    try:
        assert "thread stray" in _found(before, home_root)
    finally:
        done.set()
        thread.join()


def test_zmq_socket_is_found(before: leaks.Snapshot, home_root: Path) -> None:
    """An open socket of the shared context is named, and its descriptors are not hidden by it."""
    with zmq.Context.instance().socket(zmq.PAIR):
        found = _found(before, home_root)
    assert "zmq socket" in found
    assert "descriptor" in found


def test_child_is_found(before: leaks.Snapshot, home_root: Path, holder: subprocess.Popen[bytes]) -> None:
    """A child is named with its command."""
    assert f"process {holder.pid}: " in _found(before, home_root)


def test_what_a_process_apart_starts_is_not_found(home_root: Path) -> None:
    """What several tests share may start children as it pleases; they are found where it is not apart."""
    starter = ["sh", "-c", "echo ready; read x; sleep 1000 & echo started; read x; kill $!"]
    env = {"PATH": os.environ["PATH"]}  # it was there before the test, and knows no folder of it
    with subprocess.Popen(starter, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        before = leaks.take(frozenset([process.pid]))
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"started\n"
        found = _found(before, home_root)
        found_without = _found(dataclasses.replace(before, apart=frozenset()), home_root)
        process.communicate(b"\n")
    assert not found
    assert "sleep 1000" in found_without


def test_orphan_that_knows_the_home_is_found(before: leaks.Snapshot, home_root: Path) -> None:
    """A process whose parent is gone is known by the test's folder in its environment, and can be ended."""
    orphan = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["sh", "-c", orphan], capture_output=True, check=True).stdout)
    assert f"process {pid}: " in _found(before, home_root)
    leaks.kill_left(before, home_root)
    assert not leaks.find(before, home_root)
