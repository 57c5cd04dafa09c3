"""Ending whole trees, and signals to groups and terminals, with real children below a subreaper."""

import asyncio
import errno
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from execzmq.process import scan, tree
from execzmq.process.census import Entry, Scope
from execzmq.process.scan import TreeScanner, command_of, read_entry, stream_id
from execzmq.process.tree import (
    foreground_group,
    holders_of,
    kill,
    signal_foreground,
    signal_group,
    terminate,
)
from execzmq.types.results import TerminateReport
from tests.process.reaper import Reaper, python, start_reaper
from tests.support import deadline, ms, wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfds (Linux)")

DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        say("daemon", os.getpid())
        for fd in CLOSED:
            os.close(fd)
        while True:
            signal.pause()
    os._exit(0)
os.wait()
say("ready")
"""


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    """A subreaper in the keeper's place."""
    reaper = start_reaper()
    yield reaper
    reaper.close()


@pytest.fixture
def scanner(reaper: Reaper) -> Iterator[TreeScanner]:
    """The scanner of a server whose commands are those of `reaper`."""
    scanner = TreeScanner(reaper.pid, lambda: reaper.scopes)
    yield scanner
    scanner.close()


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    entry = read_entry(pid)
    return entry is not None and entry.state not in "ZX"


def leader_gone(scope: Scope) -> None:
    """Wait until the command itself has been reaped, and forget its pidfd as a server does."""
    assert scope.pidfd is not None
    wait_until(lambda: read_entry(scope.pid) is None)
    os.close(scope.pidfd)
    scope.pidfd = None


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "sleep 61 & echo child $!; wait",
        "sh -c 'echo child $$; exec sleep 62'; true",
        "setsid sleep 63 & echo child $!; sleep 63",
    ],
)
async def test_kill_ends_the_whole_tree_c12_c13(reaper: Reaper, scanner: TreeScanner, line: str):
    """Not only the wrapper: its jobs, and those in a session of their own."""
    scope = reaper.spawn(["sh", "-c", line])
    worker = int(reaper.wait_for("child"))
    wait_until(lambda: command_of(worker).startswith("sleep"))
    report = await kill(scope, scanner)
    assert not is_alive(worker)
    assert not is_alive(scope.pid)
    assert {scope.pid, worker} <= {ref.pid for ref in report.ended}
    assert report.signalled == report.ended
    assert report.survivors == report.unattributed == ()
    assert any(ref.command.startswith("sleep 6") for ref in report.ended)


@pytest.mark.slow
async def test_a_daemon_that_outlives_its_command_is_found_by_its_mark_c13(
    reaper: Reaper, scanner: TreeScanner
):
    """Two forks, its own session, nothing open, the leader gone: TERM ends it all the same."""
    scope = reaper.spawn(python("CLOSED = (0, 1, 2)" + DAEMON), mark=b"train-7.01")
    daemon = int(reaper.wait_for("daemon"))
    leader_gone(scope)
    report = await terminate(scope, scanner, 5.0)
    assert [ref.pid for ref in report.ended] == [daemon]
    assert not is_alive(daemon)


@pytest.mark.slow
async def test_a_daemon_without_mark_is_found_by_the_pipe_it_holds(
    scanner_with_pipe: tuple[Reaper, TreeScanner, int],
):
    """With an env that is exactly empty, what it still can write to tells whose it is."""
    reaper, scanner, pipe = scanner_with_pipe
    scope = reaper.spawn(python("CLOSED = (0, 1, 2)" + DAEMON), env={})
    scope.streams = frozenset({stream_id(pipe)})
    daemon = int(reaper.wait_for("daemon"))
    leader_gone(scope)
    report = await kill(scope, scanner)
    assert [ref.pid for ref in report.ended] == [daemon]


@pytest.mark.slow
async def test_whoever_only_reads_a_stream_is_not_ended_with_its_writer():
    """A child of the keeper has copies of its reading ends until it executes its program."""
    read, write = os.pipe()
    reaper = start_reaper((read,))
    scanner = TreeScanner(reaper.pid, lambda: reaper.scopes)
    ended, starting = (reaper.spawn(["sleep", "60"], env={"PATH": os.environ["PATH"]}) for _ in range(2))
    reaper.scopes.remove(starting)  # as long as its start has not been told
    ended.streams = frozenset({stream_id(write)})
    report = await kill(ended, scanner)
    assert [ref.pid for ref in report.ended] == [ended.pid]
    assert is_alive(starting.pid)
    await kill(starting, scanner)
    for fd in (read, write, starting.pidfd):
        assert fd is not None
        os.close(fd)
    scanner.close()
    reaper.close()


@pytest.fixture
def scanner_with_pipe() -> Iterator[tuple[Reaper, TreeScanner, int]]:
    """A reaper whose commands inherit a pipe, and the reading end of it."""
    read, write = os.pipe()
    reaper = start_reaper((write,))
    os.close(write)
    scanner = TreeScanner(reaper.pid, lambda: reaper.scopes)
    yield reaper, scanner, read
    scanner.close()
    reaper.close()
    os.close(read)


@pytest.mark.slow
async def test_what_cannot_be_attributed_is_listed_and_left_alone_c13(reaper: Reaper, scanner: TreeScanner):
    """No mark, no stream, no session, never seen: it is named, and it lives."""
    scope = reaper.spawn(python("CLOSED = (0, 1, 2)" + DAEMON), env={})
    daemon = int(reaper.wait_for("daemon"))
    leader_gone(scope)
    report = await kill(scope, scanner)
    assert [ref.pid for ref in report.unattributed] == [daemon]
    assert report.signalled == ()
    assert is_alive(daemon)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not is_alive(daemon))


@pytest.mark.slow
async def test_who_was_seen_while_its_parent_lived_is_known_afterwards(reaper: Reaper, scanner: TreeScanner):
    """A look while the command lives finds the child in its own session, also when it is orphaned later."""
    code = "if os.fork() == 0:\n os.setsid(); say('child', os.getpid()); signal.pause()\nsignal.pause()"
    scope = reaper.spawn(python(code), env={})
    worker = int(reaper.wait_for("child"))
    assert {member.entry.pid for member in (await scanner.family(scope)).members} == {scope.pid, worker}
    os.kill(scope.pid, signal.SIGKILL)
    leader_gone(scope)
    report = await terminate(scope, scanner, 5.0)
    assert [ref.pid for ref in report.ended] == [worker]


@pytest.mark.slow
async def test_who_ignores_term_is_killed_when_the_grace_is_over(reaper: Reaper, scanner: TreeScanner):
    """Those who heed TERM end by it, the others by KILL, neither before nor long after."""
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready')\nwhile True: signal.pause()"
    scope = reaper.spawn(python(stubborn))
    reaper.wait_for("ready")
    before = time.monotonic()
    report = await terminate(scope, scanner, ms(300))
    assert ms(300) <= time.monotonic() - before < ms(300) + 1
    assert [ref.pid for ref in report.ended] == [scope.pid]


@pytest.mark.slow
async def test_term_leaves_time_to_clean_up(reaper: Reaper, scanner: TreeScanner):
    """A program that ends by TERM ends in its own way, and the call returns as soon as it has."""
    code = "signal.signal(signal.SIGTERM, lambda *a: (say('cleaned'), os._exit(0)))"
    code += "\nsay('ready')\nsignal.pause()"
    scope = reaper.spawn(python(code))
    reaper.wait_for("ready")
    before = time.monotonic()
    await terminate(scope, scanner, 20.0)
    assert time.monotonic() - before < 5
    reaper.wait_for("cleaned")


@pytest.mark.slow
async def test_a_stopped_tree_ends_by_term(reaper: Reaper, scanner: TreeScanner):
    """TERM alone does not reach a stopped process; it is continued too."""
    scope = reaper.spawn(["sh", "-c", "sleep 60 & echo ready; kill -STOP $! $$; wait"])
    reaper.wait_for("ready")
    wait_until(lambda: getattr(read_entry(scope.pid), "state", "") == "T")
    before = time.monotonic()
    report = await terminate(scope, scanner, 20.0)
    assert time.monotonic() - before < 5
    assert len(report.ended) == 2


@pytest.mark.slow
async def test_children_that_a_dying_process_leaves_are_ended_too(reaper: Reaper, scanner: TreeScanner):
    """Newcomers of the grace get TERM like everybody, and KILL if they were too young to heed it."""
    code = """
def leave(*args):
    if os.fork() == 0:
        os.setsid()
        say("child", os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True: signal.pause()
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
say("ready")
while True: signal.pause()
"""
    scope = reaper.spawn(python(code), mark=b"left.1")
    reaper.wait_for("ready")
    report = await terminate(scope, scanner, ms(1000))
    worker = int(reaper.wait_for("child"))
    assert scope.pid in {ref.pid for ref in report.ended}
    assert report.survivors == ()
    assert not is_alive(worker)


@pytest.mark.slow
async def test_a_tree_that_keeps_forking_ends(reaper: Reaper, scanner: TreeScanner):
    """Children are made while one kills: looking again finds them."""
    code = """
say("ready")
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
        signal.alarm(20)
        signal.pause()
    time.sleep(0.005)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass
"""
    scope = reaper.spawn(python(code), mark=b"forks.1")
    reaper.wait_for("ready")
    await scanner.family(scope)
    report = await kill(scope, scanner)
    assert report.survivors == ()
    assert not (await scanner.family(scope)).members


@pytest.mark.slow
async def test_twenty_stubborn_trees_end_together_c17(reaper: Reaper, scanner: TreeScanner):
    """Not one grace after the other, and the loop stays free meanwhile."""
    line = "trap '' TERM; sleep 60 & echo ready; wait; sleep 60"
    scopes = [reaper.spawn(["sh", "-c", line]) for _ in range(20)]
    for _ in scopes:
        reaper.wait_for("ready")
    loop = asyncio.get_running_loop()
    late: list[float] = []

    timers: list[asyncio.Handle] = []

    def ping(due: float) -> None:
        late.append(loop.time() - due)
        timers[:] = [loop.call_later(0.01, ping, loop.time() + 0.01)]

    ping(loop.time())
    before = time.monotonic()
    reports = await asyncio.gather(*(terminate(scope, scanner, ms(300)) for scope in scopes))
    took = time.monotonic() - before
    timers[0].cancel()
    assert took < ms(300) + 2
    assert all(len(report.ended) >= 2 and not report.survivors for report in reports)
    assert max(late) < ms(250)


@pytest.mark.slow
async def test_other_commands_are_left_alone(reaper: Reaper, scanner: TreeScanner):
    """Neither signalled nor listed."""
    first = reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"])
    second = reaper.spawn(["sh", "-c", "setsid sleep 60 & echo ready; wait"])
    reaper.wait_for("ready")
    reaper.wait_for("ready")
    report = await kill(first, scanner)
    assert [ref.pid for ref in report.ended] == [first.pid]
    assert report.unattributed == ()
    assert is_alive(second.pid)
    assert len((await kill(second, scanner)).ended) == 2


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A child of the test's own, in its own session."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.slow
async def test_zombies_count_as_ended(sleeper: "subprocess.Popen[bytes]"):
    """Nobody has to reap before the call returns."""
    process = sleeper
    scope = Scope(process.pid, pidfd=os.pidfd_open(process.pid))
    scanner = TreeScanner(os.getpid(), lambda: ())
    report = await kill(scope, scanner)
    assert [ref.pid for ref in report.ended] == [process.pid]
    assert process.wait(timeout=5) == -signal.SIGKILL
    assert (await kill(scope, scanner)).signalled == ()
    assert scope.pidfd is not None
    os.close(scope.pidfd)
    scanner.close()


@pytest.mark.slow
async def test_who_may_not_be_signalled_survives(reaper: Reaper, scanner: TreeScanner, monkeypatch):
    """A process of another user is named as a survivor, after a stated time."""
    scope = reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"])
    reaper.wait_for("ready")

    def refuse(*args: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    with monkeypatch.context() as patch:
        patch.setattr(signal, "pidfd_send_signal", refuse)
        patch.setattr(tree, "KILL_LIMIT", ms(200))
        report = await terminate(scope, scanner, ms(100))
    assert [ref.pid for ref in report.survivors] == [scope.pid]
    assert report.signalled == report.ended == ()
    await kill(scope, scanner)


@pytest.mark.slow
async def test_without_descriptors_the_kill_is_tried_again(reaper: Reaper, scanner: TreeScanner, monkeypatch):
    """A server that has no descriptor left for a moment still ends the tree."""
    scope = reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"])
    reaper.wait_for("ready")
    real, calls = os.pidfd_open, []

    def pidfd_open(pid: int) -> int:
        calls.append(pid)
        if len(calls) < 3:
            raise OSError(errno.EMFILE, "too many")
        return real(pid)

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    assert [ref.pid for ref in (await kill(scope, scanner)).ended] == [scope.pid]


@pytest.mark.slow
async def test_a_cancelled_ladder_sends_nothing_more(reaper: Reaper, scanner: TreeScanner):
    """Cancelling in the grace leaves the process alive and no descriptor open."""
    stubborn = (
        "signal.signal(signal.SIGTERM, lambda *a: say('termed')); say('ready')\nwhile True: signal.pause()"
    )
    scope = reaper.spawn(python(stubborn))
    reaper.wait_for("ready")
    ending = asyncio.create_task(terminate(scope, scanner, 20.0))
    await asyncio.to_thread(reaper.wait_for, "termed")
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert is_alive(scope.pid)
    await kill(scope, scanner)


@pytest.mark.slow
async def test_nothing_left_is_an_empty_report(reaper: Reaper, scanner: TreeScanner):
    """A command that has ended and left nobody takes no time."""
    scope = reaper.spawn(["sh", "-c", "read x </dev/null; echo ready"], mark=b"gone.1")
    wait_until(lambda: read_entry(scope.pid) is None)
    assert await terminate(scope, scanner, 5.0) == TerminateReport()
    assert scope.session_over


@pytest.mark.slow
async def test_a_command_is_ended_where_nobody_can_look(
    reaper: Reaper, scanner: TreeScanner, monkeypatch: pytest.MonkeyPatch
):
    """Without a free descriptor its own group is signalled: its end frees some."""
    scope = reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"])
    reaper.wait_for("ready")
    look, refused = scanner.family, []

    async def family(scope: Scope) -> Any:
        if is_alive(scope.pid):
            refused.append(scope)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await look(scope)

    monkeypatch.setattr(scanner, "family", family)
    async with deadline(10):
        await terminate(scope, scanner, 5.0)
    assert refused
    assert not is_alive(scope.pid)


async def test_a_closed_scanner_refuses():
    """After `close` nobody waits for ever."""
    scanner = TreeScanner(os.getpid(), lambda: ())
    scanner.close()
    scanner.close()
    with pytest.raises(RuntimeError):
        await scanner.family(Scope(1))


# Signals to groups and terminals


@pytest.mark.slow
def test_a_group_is_reached_after_its_leader_was_reaped(reaper: Reaper):
    """The job of a shell that has gone gets the signal; an empty group is an error."""
    scope = reaper.spawn(["sh", "-c", "sleep 60 & echo child $!; wait"])
    worker = int(reaper.wait_for("child"))
    os.kill(scope.pid, signal.SIGKILL)
    wait_until(lambda: read_entry(scope.pid) is None)
    assert scope.pidfd is not None
    signal_group(scope.pidfd, scope.pid, signal.SIGTERM)
    wait_until(lambda: read_entry(worker) is None)
    with pytest.raises(ProcessLookupError):
        signal_group(scope.pidfd, scope.pid, signal.SIGTERM)


@pytest.mark.slow
def test_old_kernels_signal_the_group_of_a_leader_that_is_there(reaper: Reaper, monkeypatch):
    """Without the flag the number is used, and only as long as the pidfd vouches for it."""
    real = signal.pidfd_send_signal

    def old(pidfd: int, signo: int, info: object = None, flags: int = 0) -> None:
        if flags:
            raise OSError(errno.EINVAL, "flags")
        real(pidfd, signo)

    monkeypatch.setattr(signal, "pidfd_send_signal", old)
    scope = reaper.spawn(["sh", "-c", "sleep 60 & echo child $!; wait"])
    worker = int(reaper.wait_for("child"))
    assert scope.pidfd is not None
    signal_group(scope.pidfd, scope.pid, signal.SIGKILL)
    wait_until(lambda: read_entry(worker) is None and read_entry(scope.pid) is None)
    with pytest.raises(ProcessLookupError):
        signal_group(scope.pidfd, scope.pid, signal.SIGKILL)


@pytest.mark.slow
def test_interrupt_reaches_the_foreground_whatever_the_terminal_says_c22():
    """With `stty -isig` a typed Ctrl-C is data; the signal still arrives, at the foreground job alone."""
    master, slave = pty.openpty()
    line = "stty -isig -echo; trap 'echo caught; exit 42' INT; echo ready; while :; do sleep .05; done"
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(slave), "sh", "-c", line], start_new_session=True
    )
    read_until(master, b"ready")
    os.close(slave)
    assert foreground_group(master) == process.pid
    signal_foreground(master, signal.SIGINT)
    read_until(master, b"caught")
    assert process.wait(timeout=10) == 42
    with pytest.raises(ProcessLookupError):
        signal_foreground(master, signal.SIGUSR1)
    os.close(master)


def read_until(fd: int, word: bytes) -> None:
    """Read a terminal until it has said `word`."""
    said, limit = b"", deadline(10)
    while word not in said:
        assert select.select([fd], [], [], limit.left())[0]
        said += os.read(fd, 4096)


@pytest.mark.slow
def test_holders_are_those_who_can_write_to_a_pipe():
    """The writer is named, the reader is not, nor is this process."""
    read, write = os.pipe()
    writer = subprocess.Popen(["sleep", "61"], pass_fds=[write])
    reader = subprocess.Popen(["sleep", "62"], pass_fds=[read])
    assert holders_of([read]) == [(writer.pid, "sleep 61")]
    assert holders_of([read], skip=[writer.pid]) == []
    assert holders_of([]) == []
    for process in (writer, reader):
        process.kill()
        process.wait(timeout=10)
    assert holders_of([read]) == []
    os.close(read)
    os.close(write)


@pytest.mark.slow
def test_holders_of_a_terminal_are_found_by_its_master():
    """Whoever has the slave open."""
    master, slave = pty.openpty()
    process = subprocess.Popen(["sleep", "61"], stdin=slave, stdout=slave)
    assert stream_id(master) == stream_id(slave)
    os.close(slave)
    assert holders_of([master]) == [(process.pid, "sleep 61")]
    process.kill()
    process.wait(timeout=10)
    os.close(master)


@pytest.mark.slow
async def test_a_reaped_leader_whose_number_came_back_vouches_for_nothing(
    reaper: Reaper, scanner: TreeScanner
):
    """The number of a command that was never looked at while it lived is not trusted when it is another's."""
    first, other = (reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"]) for _ in range(2))
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: read_entry(first.pid) is None)
    recycled = Scope(other.pid, pidfd=first.pidfd)
    reaper.scopes[:] = [recycled]
    report = await kill(recycled, scanner)
    assert report.signalled == ()
    assert is_alive(other.pid)
    reaper.scopes[:] = [first, other]
    assert len((await kill(other, scanner)).ended) == 1


@pytest.mark.slow
async def test_a_stuck_look_at_one_process_does_not_save_the_others(
    reaper: Reaper, scanner: TreeScanner, monkeypatch: pytest.MonkeyPatch
):
    """Where the memory of a process cannot be read for ever, sessions and ancestry still tell."""
    hung = threading.Event()

    def hang(pid: int) -> str:
        hung.wait()
        return ""

    monkeypatch.setattr(scan, "command_of", hang)
    monkeypatch.setattr(scan, "STUCK_AFTER", ms(100))
    first = reaper.spawn(["sh", "-c", "sleep 60 & echo ready; wait"])
    second = reaper.spawn(["sh", "-c", "echo ready; exec sleep 60"])
    for _ in range(2):
        reaper.wait_for("ready")
    try:
        reports = await asyncio.gather(kill(first, scanner), terminate(second, scanner, 5.0))
    finally:
        hung.set()
    assert [len(report.ended) for report in reports] == [2, 1]
    assert {ref.command for ref in reports[0].ended} <= {"[sh]", "[sleep]"}


async def test_a_look_that_fails_tells_who_waits(scanner: TreeScanner, monkeypatch: pytest.MonkeyPatch):
    """An error of the pass is raised where its result was awaited, and the next one works."""
    with monkeypatch.context() as patch:
        patch.setattr(scan, "read_entries", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await scanner.family(Scope(2**30))
    assert (await scanner.family(Scope(2**30))).members == ()


async def test_closing_cancels_who_waits(scanner: TreeScanner, monkeypatch: pytest.MonkeyPatch):
    """A pass under way is forgotten."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> dict[int, Entry]:
        begun.set()
        go_on.wait()
        return {}

    monkeypatch.setattr(scan, "read_entries", slow)
    waiting = asyncio.create_task(scanner.family(Scope(2**30)))
    await asyncio.to_thread(begun.wait)
    scanner.close()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("turns", range(5))
async def test_cancelling_together_with_an_end_is_not_lost(scanner: TreeScanner, turns: int) -> None:
    """Whoever ends a tree for long can be told to stop at any moment, also as one of its processes ends."""
    ladder = tree._Ladder(Scope(0), scanner)
    waiting = asyncio.ensure_future(ladder._wait_for_an_end(60.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ladder._ended.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    if waiting.cancel():
        with pytest.raises(asyncio.CancelledError):
            await waiting
    ladder.close()
