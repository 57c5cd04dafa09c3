"""Adding up what the processes of a command use."""

import os
import signal

from execzmq.process.census import Entry
from execzmq.process.scan import read_entry
from execzmq.process.usage import Meter
from execzmq.types.results import ProcessUsage
from tests.process.reaper import python, start_reaper

KEEPER = 1


def entry(pid: int, ppid: int, cpu: float, start: int = 1) -> Entry:
    """Return a process with some memory."""
    return Entry(pid, ppid, 10, start, "R", cpu, 100)


def test_the_whole_tree_counts() -> None:
    """Time, memory and number are those of all members."""
    members = [entry(10, KEEPER, 1.5), entry(11, 10, 2.0), entry(12, 11, 0.5)]
    assert Meter().take(members) == ProcessUsage(4.0, 300, 3)
    assert Meter().take([]) == ProcessUsage(0.0, 0, 0)


def test_wrappers_are_not_of_the_command() -> None:
    """Their memory and they themselves do not count; time that they have waited for does."""
    members = [entry(10, KEEPER, 0.5), entry(11, 10, 0.25), entry(12, 11, 1.0)]
    assert Meter().take(members, wrappers={10, 11}) == ProcessUsage(1.75, 100, 1)


def test_a_child_that_is_waited_for_counts_once() -> None:
    """Its time goes to its parent; until that has it, nothing falls."""
    meter = Meter()
    assert meter.take([entry(10, KEEPER, 1.0), entry(11, 10, 5.0)]).cpu_seconds == 6.0
    assert meter.take([entry(10, KEEPER, 1.25)]).cpu_seconds == 6.0
    assert meter.take([entry(10, KEEPER, 6.5)]).cpu_seconds == 6.5


def test_who_has_no_parent_there_is_remembered() -> None:
    """The command itself, and an orphan, leave their time to nobody."""
    meter = Meter()
    meter.take([entry(10, KEEPER, 1.0), entry(11, KEEPER, 5.0), entry(12, 11, 3.0)])
    assert meter.take([entry(12, KEEPER, 3.5)]).cpu_seconds == 9.5
    assert meter.take([]).cpu_seconds == 9.5


def test_a_number_that_comes_back_is_another_process() -> None:
    """It is told by its start."""
    meter = Meter()
    meter.take([entry(10, KEEPER, 1.0)])
    assert meter.take([entry(10, KEEPER, 0.5, start=2)]).cpu_seconds == 1.5


def test_the_kernel_tells_time_and_memory() -> None:
    """An entry has the time of a process and of whom it waited for, and its resident memory."""
    reaper = start_reaper()
    code = """
if os.fork() == 0:
    while time.process_time() < 0.1: pass
    os._exit(0)
os.wait()
block = b"x" * (16 << 20)
say("ready")
signal.pause()
"""
    try:
        pid = reaper.spawn(python(code)).pid
        reaper.wait_for("ready")
        found = read_entry(pid)
        os.kill(pid, signal.SIGKILL)
    finally:
        reaper.close()
    assert found is not None
    assert 0.1 <= found.cpu < 2.0
    assert 16 << 20 < found.memory < 64 << 20
