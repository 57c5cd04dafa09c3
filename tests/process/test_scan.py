"""What one look at a process shows."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TypeAlias

import psutil
import pytest

from execzmq.process import scan
from execzmq.process.scan import (
    ancestors,
    command_of,
    name_of,
    read_entries,
    read_entry,
    read_evidence,
    start_time,
    stream_id,
    streams_of,
)
from tests.support import wait_until

pytestmark = pytest.mark.skipif(not scan.HAS_PROC, reason="needs /proc (Linux)")

Child: TypeAlias = "subprocess.Popen[bytes]"


@pytest.fixture
def sleeper() -> Iterator[Child]:
    """A child in its own session, with a pipe, a mark behind a large env, and nothing else."""
    env = {f"V{number}": "x" * 100_000 for number in range(5)} | {"EXECZMQ_PROCESS": "p.1"}
    argv = ["/bin/sleep", "60"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: command_of(process.pid) == "/bin/sleep 60")
        yield process
        process.kill()


def test_an_entry_names_parent_session_start_and_state(sleeper: Child):
    """What ancestry and sessions are decided by."""
    entry = read_entry(sleeper.pid)
    assert entry is not None
    assert (entry.pid, entry.ppid, entry.session) == (sleeper.pid, os.getpid(), sleeper.pid)
    assert entry.start == start_time(sleeper.pid) > 0
    assert not entry.is_stopped
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: (now := read_entry(sleeper.pid)) is not None and now.is_stopped)


def test_a_name_with_brackets_and_blanks_misleads_nobody(sleeper: Child):
    """A process may call itself as it likes."""
    code = "open('/proc/self/comm', 'w').write(') S 1 1 (x'); print('ready', flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        entry = read_entry(process.pid)
        assert entry is not None
        assert entry.ppid == os.getpid()
        assert name_of(process.pid) == "[) S 1 1 (x]"
        process.kill()


def test_zombies_and_the_gone_are_not_among_the_living(sleeper: Child):
    """A zombie has an entry of its own, but it does not live; one that is reaped has none."""
    assert sleeper.pid in read_entries()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert sleeper.pid not in read_entries()
    assert read_entry(sleeper.pid) is not None
    sleeper.wait(timeout=10)
    assert read_entry(sleeper.pid) is None
    assert start_time(sleeper.pid) == 0
    assert read_evidence(sleeper.pid) is None


def test_evidence_has_the_mark_and_the_pipes(sleeper: Child):
    """The mark is found however large the env is; the pipe by either end."""
    evidence = read_evidence(sleeper.pid)
    assert evidence is not None
    assert evidence.mark == b"p.1"
    assert sleeper.stdout is not None
    assert stream_id(sleeper.stdout.fileno()) in evidence.streams


def test_evidence_has_no_pipe_that_is_only_read():
    """A child of the keeper has the keeper's ends until it executes: that makes it nobody's member."""
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"], stdin=read, stdout=subprocess.DEVNULL) as process:
        evidence = read_evidence(process.pid)
        process.kill()
    assert evidence is not None
    assert stream_id(write) not in evidence.streams
    os.close(read)
    os.close(write)


def test_streams_can_be_asked_for_by_who_may_write():
    """Whoever only reads a pipe does not hold it open for its reader."""
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"], stdin=read) as process:
        assert stream_id(write) in set(streams_of(process.pid))
        assert stream_id(write) not in set(streams_of(process.pid, writers=True))
        process.kill()
    os.close(read)
    os.close(write)


def test_a_terminal_is_known_by_master_and_slave():
    """Two terminals differ; the two ends of one do not."""
    (master, slave), (other, other_slave) = pty.openpty(), pty.openpty()
    assert stream_id(master) == stream_id(slave)
    assert stream_id(master) != stream_id(other)
    for fd in (master, slave, other, other_slave):
        os.close(fd)


def test_ancestors_end_at_the_top():
    """The line of parents, oneself included."""
    line = ancestors(read_entries(), os.getpid())
    assert {os.getpid(), os.getppid()} <= line
    assert ancestors({}, 5) == set()


def test_psutil_tells_the_same_where_there_is_no_proc(sleeper: Child, monkeypatch: pytest.MonkeyPatch):
    """Parent and session agree with what /proc says; starts are in units of their own."""
    by_proc = read_entries()[sleeper.pid]
    monkeypatch.setattr(scan, "HAS_PROC", False)
    by_psutil = read_entries()[sleeper.pid]
    assert by_psutil[:3] == by_proc[:3]
    assert by_psutil.start == start_time(sleeper.pid) == int(psutil.Process(sleeper.pid).create_time() * 100)
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: read_entries()[sleeper.pid].is_stopped)
