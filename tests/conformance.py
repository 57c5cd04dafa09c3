"""What every backend keeps: one check for each promise of `ExecBackend` and `ExecProcess`.

A test file of a backend runs all `CHECKS`, each on a fresh one. Knows none of them.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from execzmq.client.run import start_whole
from execzmq.errors import (
    CommandNotFound,
    Conflict,
    InvalidRequest,
    InvalidState,
    NotATerminal,
    ProcessNotFound,
    ProcessNotRunning,
    StdinClosed,
    WorkingDirectoryMissing,
)
from execzmq.types.backend import ExecBackend, ExecProcess
from execzmq.types.events import Event, Failed, Notice, Output, Started, last_seq_of
from execzmq.types.params import EnvPolicy, Limits, SandboxIntent, TtySize
from execzmq.types.results import ProcessInfo
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    events_until,
    exit_of,
    is_alive,
    kinds_of,
    only,
    output_of,
    python,
    run,
    shell,
    until_output,
    words,
)
from tests.support import child, deadline, wait_until

Check = Callable[[ExecBackend], Awaitable[None]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Add a function to the suite."""
    CHECKS.append(function)
    return function


def check_name(function: Check) -> str:
    """Return what a check is about, as a test id."""
    return function.__name__


# Starts


@check
async def events_of_a_short_command(backend: ExecBackend) -> None:
    """A command tells its start, its output, its exit and its end, in that order and with seqs 1, 2, 3 …"""
    before = time.time()
    process = await backend.start(shell("echo hello"))
    events = await all_events(process)
    assert kinds_of(events) == ["started", "output", "exited", "closed"]
    assert_seqs_whole(events)
    assert output_of(events) == b"hello\n"
    assert only(events, Started).pid == (await process.info()).pid
    assert before <= only(events, Started).time <= exit_of(events).ended_at <= time.time()


@check
async def result_is_whole(backend: ExecBackend) -> None:
    """The result has the code, the cause, times, what was used, and the bytes of each stream."""
    _, _, result = await run(backend, shell("printf out; printf error >&2; exit 3"))
    assert (result.exit_code, result.signal, result.cause, result.returncode) == (3, None, "exited", 3)
    assert result.output_bytes == {"stdout": 3, "stderr": 5}
    assert result.dropped_bytes == {"stdout": 0, "stderr": 0}
    assert result.started_at <= result.ended_at
    assert result.rusage["max_rss"] > 0


@check
async def streams_are_apart(backend: ExecBackend) -> None:
    """stdout and stderr keep their own bytes and offsets."""
    events, _, _ = await run(backend, shell("echo a; echo b >&2; echo c; echo d >&2"))
    assert output_of(events, "stdout") == b"a\nc\n"
    assert output_of(events, "stderr") == b"b\nd\n"


@check
async def merged_streams_keep_their_order(backend: ExecBackend) -> None:
    """stderr that is joined to stdout comes in the order in which it was written."""
    events, output, _ = await run(backend, shell("echo a; echo b >&2; echo c", merge_stderr=True))
    assert output == b"a\nb\nc\n"
    assert {event.stream for event in events if isinstance(event, Output)} == {"stdout"}


@check
async def cwd_umask_and_arg0(backend: ExecBackend) -> None:
    """The working directory, the file mode mask and the program's own name are those asked for."""
    _, output, _ = await run(
        backend, words("/bin/sh", "-c", "pwd; umask; echo $0", cwd=b"/usr", umask=0o27, arg0=b"other")
    )
    assert output == b"/usr\n0027\nother\n" or output == b"/usr\n0027\n/bin/sh\n"


@check
async def environment_is_exact(backend: ExecBackend) -> None:
    """`env` is the base of the variables, and an empty one means none."""
    _, output, _ = await run(backend, words("/usr/bin/env", env={b"A": b"1"}))
    assert [line for line in output.splitlines() if not line.startswith(b"EXECZMQ_")] == [b"A=1"]
    _, output, _ = await run(backend, words("/usr/bin/env", env={}))
    assert output == b""


@check
async def environment_policy(backend: ExecBackend) -> None:
    """A policy picks from the base, excludes and adds."""
    policy = EnvPolicy(inherit="all", exclude=("*SECRET*",), set={b"C": b"3"})
    params = words("/usr/bin/env", env={b"A": b"1", b"MY_SECRET": b"2"}, env_policy=policy)
    _, output, _ = await run(backend, params)
    lines = [line for line in output.splitlines() if not line.startswith(b"EXECZMQ_")]
    assert sorted(lines) == [b"A=1", b"C=3"]


@check
async def limits_hold(backend: ExecBackend) -> None:
    """Resource limits are set before the command's first instruction."""
    _, output, _ = await run(backend, shell("ulimit -n", limits=Limits(descriptors=64)))
    assert output == b"64\n"


@check
async def missing_command(backend: ExecBackend) -> None:
    """A command that is not there is an error by name, and its chosen id tells `failed` and is free again."""
    with pytest.raises(CommandNotFound) as caught:
        await backend.start(words("/no/such/program", process_id="x"))
    assert caught.value.details["errno"] == 2
    process = await backend.attach("x")
    events = await all_events(process)
    assert only(events, Failed).error["ename"] == "CommandNotFound"
    info = await process.info()
    assert (info.state, info.exited, info.closed) == ("failed", True, True)
    again = await backend.start(shell("echo ok", process_id="x"))
    assert again.instance != process.instance
    assert output_of(await all_events(again)) == b"ok\n"


@check
async def missing_working_directory(backend: ExecBackend) -> None:
    """A working directory that is not there is told apart from a missing command."""
    with pytest.raises(WorkingDirectoryMissing):
        await backend.start(shell("true", cwd=b"/no/such/folder"))


@check
async def bad_words(backend: ExecBackend) -> None:
    """Ids and names have 1 to 64 of a small alphabet."""
    for bad in ("", "a b", "a.b", "ä", "x" * 65, "a/b", "a\n"):
        with pytest.raises(InvalidRequest):
            await backend.start(shell("true", process_id=bad))
        with pytest.raises(InvalidRequest):
            await backend.start(shell("true", name=bad))
    assert await backend.list_processes() == []


@check
async def longest_words(backend: ExecBackend) -> None:
    """64 characters are not too many."""
    process = await backend.start(shell("true", process_id="i" * 64, name="n" * 64))
    assert kinds_of(await all_events(process)) == ["started", "exited", "closed"]


@check
async def sandbox_confines(backend: ExecBackend) -> None:
    """A profile is applied and told; one that there is not is refused, never left out."""
    with pytest.raises(InvalidRequest):
        await backend.start(shell("true", sandbox=SandboxIntent("nosuch")))
    handle = await backend.start(shell("echo >/etc/escaped", sandbox=SandboxIntent("read-only"), cwd=b"/"))
    result = end_of(await all_events(handle))
    assert (result.cause, result.confidence, result.exit_code) == ("sandbox_denied", "high", 2)
    applied = (await handle.info()).sandbox
    assert applied is not None
    assert (applied["profile"], applied["network"]["mode"]) == ("read-only", "none")
    assert "escaped" not in os.listdir("/etc")


@check
async def full_access_is_no_sandbox(backend: ExecBackend) -> None:
    """The profile that confines nothing is like none."""
    with pytest.raises(InvalidRequest, match="need a sandbox: name its profile"):
        await backend.start(shell("true", sandbox=SandboxIntent("", (b"/usr",))))
    handle = await backend.start(shell("true", sandbox=SandboxIntent("full-access")))
    end_of(await all_events(handle))
    assert (await handle.info()).sandbox is None


@check
async def start_is_explained(backend: ExecBackend) -> None:
    """What a start would become is told without one, and what it would be refused for."""
    explained = await backend.explain(words("printf", "x", cwd=b"/tmp", env={b"A": b"1"}))
    assert explained == {
        "argv": [b"printf", b"x"],
        "arguments": None,
        "cwd": b"/tmp",
        "env": [b"A", b"EXECZMQ_PROCESS"],
        "env_changes": None,
        "sandbox": None,
    }
    with pytest.raises(InvalidRequest, match="there are read-only, workspace-write, full-access"):
        await backend.explain(words("x", sandbox=SandboxIntent("nope")))
    assert await backend.list_processes() == []


@check
async def profiles_are_described(backend: ExecBackend) -> None:
    """The profiles that there are, of which one is the default."""
    profiles = await backend.profiles()
    assert [(one.name, one.is_default) for one in profiles] == [
        ("read-only", False),
        ("workspace-write", False),
        ("full-access", True),
    ]
    assert all(one.description and one.fields for one in profiles)


@check
async def same_start_again(backend: ExecBackend) -> None:
    """The same start with the same id is one process, also in parallel and after it has ended."""
    params = shell("echo $$", process_id="once")
    handles = await asyncio.gather(*(backend.start(params) for _ in range(5)))
    assert len({handle.instance for handle in handles}) == 1
    first = await all_events(handles[0])
    again = await backend.start(params)
    assert again.instance == handles[0].instance
    assert output_of(await all_events(again)) == output_of(first)
    with pytest.raises(Conflict):
        await backend.start(shell("echo other", process_id="once"))


@check
async def names_are_unique_among_the_living(backend: ExecBackend) -> None:
    """A name is taken while its process lives, and free afterwards; the newest is found by it."""
    first = await backend.start(words("cat", stdin="pipe", name="cat"))
    with pytest.raises(Conflict):
        await backend.start(shell("true", name="cat"))
    await first.write(b"", end=True)
    await all_events(first)
    second = await backend.start(shell("true", name="cat"))
    await all_events(second)
    assert (await backend.attach("cat")).process_id == second.process_id
    with pytest.raises(ProcessNotFound):
        await backend.attach("dog")


@check
async def an_id_goes_before_a_name(backend: ExecBackend) -> None:
    """What is both an id and a name is taken as an id; so no name may be an id that is there."""
    await backend.start(words("sleep", "60", name="both"))
    by_id = await backend.start(shell("true", process_id="both"))
    assert (await backend.attach("both")).process_id == by_id.process_id
    await backend.start(shell("true", process_id="other"))
    with pytest.raises(Conflict, match="the id of another"):
        await backend.start(shell("true", name="other"))


@check
async def list_and_info(backend: ExecBackend) -> None:
    """A listing has every process, the oldest first, as `info` describes it."""
    first = await backend.start(shell("exit 4", name="one"))
    await all_events(first)
    second = await backend.start(words("cat", b"-\xff", stdin="pipe", process_id="two"))
    infos = await backend.list_processes()
    assert [info.process_id for info in infos] == [first.process_id, "two"]
    assert infos[0].state == "closed"
    assert infos[0].result is not None
    assert infos[0].result.exit_code == 4
    assert infos[1].argv == (b"cat", b"-\xff")
    assert infos[0] == await first.info()
    assert (await second.info()).instance == second.instance


@check
async def server_describes_itself(backend: ExecBackend) -> None:
    """A backend tells who and where it is, and counts."""
    await run(backend, shell("true"))
    info = await backend.server_info()
    assert info.pid > 0
    assert info.role == "owner"
    assert info.statistics["started"] >= 1


# Reading


@check
async def paging(backend: ExecBackend) -> None:
    """Pages join without holes: each has at least one event, however little was asked for."""
    process = await backend.start(shell("i=0; while [ $i -lt 50 ]; do echo line$i; i=$((i+1)); done"))
    events = await all_events(process)
    paged: list[Event] = []
    cursor = 0
    while True:
        page = await process.read(cursor, max_bytes=1)
        if not page.chunks:
            break
        paged += page.chunks
        cursor = page.next_seq
    assert output_of(paged) == output_of(events)
    assert_seqs_whole(paged)
    assert (page.exited, page.closed, page.exit_code, page.last_seq) == (True, True, 0, cursor)


@check
async def reading_from_the_middle(backend: ExecBackend) -> None:
    """Who comes with a cursor gets what stands after it."""
    process = await backend.start(shell("echo a; echo b >&2; echo c"))
    events = await all_events(process)
    assert await all_events(process, after_seq=2) == events[2:]
    late = await all_events(process, after_seq=events[-1].seq)  # type: ignore[union-attr]  # not a gap
    assert late == []


@check
async def long_poll(backend: ExecBackend) -> None:
    """A read that waits is answered by the next event, and one that finds nothing after its time."""
    process = await backend.start(words("cat", stdin="pipe"))
    empty = await process.read(1, wait=0.05)
    assert empty.chunks == ()
    assert (empty.next_seq, empty.exited, empty.closed) == (1, False, False)
    async with deadline(10):
        waiting = asyncio.ensure_future(process.read(1, wait=30.0))
        await process.write(b"x")
        assert output_of(list((await waiting).chunks)) == b"x"


@check
async def read_does_not_wait_at_the_end(backend: ExecBackend) -> None:
    """After the end nothing can come, so a read answers at once."""
    process = await backend.start(shell("true"))
    events = await all_events(process)
    async with deadline(5):
        assert (await process.read(len(events), wait=30.0)).closed


@check
async def two_readers(backend: ExecBackend) -> None:
    """Everyone who follows gets every event once and in order."""
    process = await backend.start(shell("seq 1 2000"))
    other = await backend.attach(process.process_id)
    mine, others = await asyncio.gather(all_events(process), all_events(other))
    assert output_of(mine) == output_of(others)
    for events in (mine, others):
        assert_seqs_whole(events)
        assert_offsets_whole(events)


@check
async def closing_the_iterator(backend: ExecBackend) -> None:
    """Who stops following leaves nothing behind, and the command runs on."""
    process = await backend.start(shell("while :; do echo tick; sleep 0.02; done"))
    for _ in range(3):
        await events_until(process, lambda seen: bool(output_of(seen)))
    assert (await process.info()).state == "running"


@check
async def cancelling_a_follower(backend: ExecBackend) -> None:
    """Cancelling the wait for events does not touch the command."""
    process = await backend.start(words("cat", stdin="pipe"))
    follower = asyncio.ensure_future(all_events(process))
    await until_output_of_cat(process, b"x")
    follower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower
    await until_output_of_cat(process, b"y")


async def until_output_of_cat(process: ExecProcess, data: bytes) -> None:
    """Write to `cat` and wait until it has said the same."""
    await process.write(data)
    await until_output(process, data)


@check
async def waiting(backend: ExecBackend) -> None:
    """`wait` tells the state at the exit, at the end, or when its time is over."""
    process = await backend.start(words("cat", stdin="pipe"))
    assert (await process.wait("exited", 0.01)).state == "running"
    assert await process.ended("closed", 0.01) is None
    await process.write(b"", end=True)
    assert (await process.wait("exited", 10.0)).exited
    info = await process.wait("closed", 10.0)
    assert info.closed
    assert info.result is not None
    assert info.result.exit_code == 0
    assert await process.ended("exited", 10.0) == await process.ended("closed", 10.0) == info.result


@check
async def cancelled_starts(backend: ExecBackend) -> None:
    """A start that is cancelled at any moment, by one who ends what may have begun, leaves no command."""
    for turns in range(12):
        starting = asyncio.create_task(start_whole(backend, words("sleep", "60")))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).terminate(0.0)
    assert [info for info in await backend.list_processes() if not info.exited] == []


@check
async def long_listings(backend: ExecBackend) -> None:
    """Nobody's long command lines take the listing from the others."""
    for number in range(50):
        await backend.start(words("true", "x" * 100_000, process_id=f"long-{number}"))
    infos = await backend.list_processes()
    assert [info.process_id for info in infos] == [f"long-{number}" for number in range(50)]
    assert all(len(info.argv[1]) == 100_000 for info in infos)


@check
async def waiting_at_once(backend: ExecBackend) -> None:
    """The result is the same whether it is heard or asked for, with output before it, and by many at once."""
    process = await backend.start(shell("echo out; exit 3"))
    heard = await asyncio.gather(*(process.ended(until, 10.0) for until in ("exited", "closed", "closed")))
    asked = (await process.wait("closed", 10.0)).result
    assert asked is not None
    assert [result and result.exit_code for result in heard] == [3, 3, 3]
    assert heard[1] == heard[2] == asked
    assert asked.output_bytes["stdout"] == 4


# Stdin


@check
async def stdin_is_empty(backend: ExecBackend) -> None:
    """A command that was given no stdin finds its end at once, and writing to it is an error."""
    process = await backend.start(shell("cat; echo end; sleep 60"))
    await until_output(process, b"end\n")
    with pytest.raises(StdinClosed):
        await process.write(b"x")


@check
async def stdin_data(backend: ExecBackend) -> None:
    """Data that come with the start are all of stdin."""
    data = os.urandom(300_000)
    _, output, _ = await run(backend, words("cat", stdin="data", stdin_data=data))
    assert output == data
    _, output, _ = await run(backend, shell("cat; echo end", stdin="data"))
    assert output == b"end\n"


@check
async def stdin_in_pieces(backend: ExecBackend) -> None:
    """What is written comes whole and in order, then the end."""
    process = await backend.start(words("cat", stdin="pipe"))
    pieces = [os.urandom(50_000) for _ in range(20)]
    for piece in pieces:
        assert await process.write(piece) == len(piece)
    await process.write(b"last", end=True)
    assert output_of(await all_events(process)) == b"".join(pieces) + b"last"


@check
async def stdin_at_once(backend: ExecBackend) -> None:
    """Writes that are not awaited one by one come whole, in the order in which they were begun."""
    process = await backend.start(words("cat", stdin="pipe"))
    pieces = [bytes([65 + at]) * 1000 for at in range(20)]
    await asyncio.gather(*(process.write(piece) for piece in pieces))
    await process.write(b"", end=True)
    assert output_of(await all_events(process)) == b"".join(pieces)


@check
async def stdin_through_two_handles(backend: ExecBackend) -> None:
    """Two handles of one client write to one stdin."""
    process = await backend.start(words("cat", stdin="pipe"))
    await process.write(b"one ")
    other = await backend.attach(process.process_id)
    await other.write(b"two ")
    await process.write(b"three", end=True)
    assert output_of(await all_events(process)) == b"one two three"


@check
async def stdin_of_a_reader_that_waits(backend: ExecBackend) -> None:
    """More than 16 MiB that nobody reads make the writer wait; it goes on when the command reads."""
    process = await backend.start(shell("trap exit HUP; kill -STOP $$; wc -c", stdin="pipe"))
    pieces = 20
    writing = asyncio.ensure_future(_write_pieces(process, b"x" * (1 << 20), pieces))
    done, _ = await asyncio.wait([writing], timeout=1.0)
    assert not done
    await process.signal("CONT")
    async with deadline(20):
        await writing
    assert output_of(await all_events(process)) == b"%d\n" % (pieces << 20)


async def _write_pieces(process: ExecProcess, piece: bytes, count: int) -> None:
    for _ in range(count):
        await process.write(piece)
    await process.write(b"", end=True)


@check
async def stdin_ends_once(backend: ExecBackend) -> None:
    """After the end nothing can be written."""
    process = await backend.start(shell("cat; sleep 60", stdin="pipe"))
    await process.write(b"x", end=True)
    with pytest.raises(StdinClosed):
        await process.write(b"y")


@check
async def stdin_nobody_reads(backend: ExecBackend) -> None:
    """Writing to a command that has ended, or has closed its stdin, is an error and not a hang."""
    process = await backend.start(shell("exec <&-; echo ready; sleep 60", stdin="pipe"))
    await until_output(process, b"ready")
    async with deadline(10):
        with pytest.raises(StdinClosed):
            await _write_pieces(process, b"x" * 100_000, 100)
    ended = await backend.start(shell("true", stdin="pipe"))
    await all_events(ended)
    with pytest.raises(StdinClosed):
        await ended.write(b"x")


# Signals and ends


@check
async def signals(backend: ExecBackend) -> None:
    """A signal comes by name with or without SIG, or by number, and is named in the result."""
    for given in ("TERM", "SIGTERM", 15):
        process = await backend.start(words("sleep", "60"))
        await process.signal(given)
        result = end_of(await all_events(process))
        assert (result.exit_code, result.signal, result.cause, result.returncode) == (
            None,
            15,
            "signaled",
            -15,
        )


@check
async def bad_signals(backend: ExecBackend) -> None:
    """A signal that is none is refused, and so is one to a command that has ended."""
    process = await backend.start(words("sleep", "60"))
    for bad in ("NOPE", "", 0, -1, 4711):
        with pytest.raises(InvalidRequest):
            await process.signal(bad)
    await process.signal("KILL")
    await all_events(process)
    with pytest.raises(ProcessNotRunning):
        await process.signal("TERM")


@check
async def terminate_ends_the_tree(backend: ExecBackend) -> None:
    """The whole tree is ended, the background jobs too; the report names it, the result says why."""
    process = await backend.start(shell("sleep 60 & echo $!; wait"))
    job = int(output_of(await until_output(process, b"\n")))
    report = await process.terminate(5.0)
    assert report.survivors == ()
    assert {ref.pid for ref in report.ended} == {job, (await process.info()).pid}
    assert not is_alive(job)
    result = end_of(await all_events(process))
    assert (result.signal, result.cause) == (signal.SIGTERM, "terminated")
    assert result.asked_by.startswith("client ")


@check
async def terminate_gives_grace_and_then_kills(backend: ExecBackend) -> None:
    """Who handles TERM may end in its own way; who ignores it is killed."""
    gentle = await backend.start(shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
    deaf = await backend.start(shell("trap '' TERM; echo up; while :; do sleep 0.05; done"))
    for process in (gentle, deaf):
        await until_output(process, b"up")
    await asyncio.gather(gentle.terminate(5.0), deaf.terminate(0.2))
    events = await all_events(gentle)
    assert output_of(events, "stdout") == b"up\nbye\n"
    assert (end_of(events).exit_code, end_of(events).cause) == (7, "terminated")
    assert end_of(await all_events(deaf)).signal == signal.SIGKILL


@check
async def terminate_twice(backend: ExecBackend) -> None:
    """Ending what is being ended, or has ended, is no error."""
    process = await backend.start(words("sleep", "60"))
    await asyncio.gather(process.terminate(), process.terminate(0.0))
    report = await process.terminate()
    assert report.survivors == ()


@check
async def time_limit(backend: ExecBackend) -> None:
    """A time limit ends the tree, and the result says so; a program's own 124 is no timeout."""
    _, output, result = await run(
        backend, shell("echo part; sleep 60 & wait", timeout=0.2, timeout_grace=1.0)
    )
    assert output == b"part\n"
    assert (result.cause, result.asked_by) == ("timed_out", "time limit")
    _, _, result = await run(backend, shell("exit 124", timeout=60))
    assert (result.cause, result.exit_code) == ("exited", 124)


@check
async def forget(backend: ExecBackend) -> None:
    """A process is forgotten when it is over and not before; then nobody knows it."""
    process = await backend.start(words("cat", stdin="pipe", process_id="p"))
    with pytest.raises(InvalidState):
        await process.forget()
    await process.write(b"", end=True)
    await all_events(process)
    await process.forget()
    assert await backend.list_processes() == []
    for work in (process.info, process.forget, process.read, process.terminate):
        with pytest.raises(ProcessNotFound):
            await work()
    again = await backend.start(words("cat", process_id="p"))
    assert again.instance != process.instance


@check
async def drain_limit(backend: ExecBackend) -> None:
    """`closed` comes that long after the exit, names who holds the streams, and lets them live."""
    params = shell("(while :; do echo more; sleep 0.02; done) & echo $!; exit 5", drain_limit=0.2)
    process = await backend.start(params)
    events = await all_events(process)
    holder = int(output_of(events).split()[0])
    result = end_of(events)
    assert (exit_of(events).exit_code, result.exit_code, result.cause) == (5, 5, "exited")
    assert holder in [pid for pid, _ in result.held_open_by]
    assert not exit_of(events).held_open_by
    assert is_alive(holder)
    report = await process.terminate(1.0)
    assert holder in [ref.pid for ref in report.ended]


# Terminals


@check
async def terminal(backend: ExecBackend) -> None:
    """A command may have a terminal of the wished size, on all three streams."""
    params = shell("test -t 0 && test -t 1 && test -t 2 && stty size", tty=True, tty_size=TtySize(33, 99))
    _, output, result = await run(backend, params)
    assert (output, result.exit_code) == (b"33 99\r\n", 0)


@check
async def resize(backend: ExecBackend) -> None:
    """A resize reaches the program, absurd sizes and processes without a terminal are refused."""
    line = "trap 'stty size; exit 0' WINCH; echo R; while :; do sleep 0.05; done"
    process = await backend.start(shell(line, tty=True))
    await until_output(process, b"R")
    for rows, cols in ((0, 0), (70000, 1), (1, 65536), (-1, 80)):
        with pytest.raises(InvalidRequest):
            await process.resize(rows, cols)
    await process.resize(40, 132)
    assert b"40 132" in output_of(await all_events(process))
    with pytest.raises(ProcessNotRunning):
        await process.resize(24, 80)
    plain = await backend.start(words("sleep", "60"))
    with pytest.raises(NotATerminal):
        await plain.resize(24, 80)


@check
async def screen(backend: ExecBackend) -> None:
    """What a terminal shows is told with its seq and its size, while it runs and afterwards."""
    line = r"printf 'old\033[2J\033[H\033[1mnew\033[0m'; read x; printf 'more'"
    process = await backend.start(shell(line, tty=True, tty_size=TtySize(5, 20), tty_echo=False))
    await until_output(process, b"new")
    assert (await process.info()).tty_size == TtySize(5, 20)
    shown = await process.screen()
    assert (shown.instance, shown.rows, shown.cols) == (process.instance, 5, 20)
    assert (b"new" in shown.data, b"old" in shown.data, shown.is_cut) == (True, False, False)
    assert shown.seq == (await process.info()).last_seq
    await process.resize(6, 30)
    await process.write(b"\n")
    events = await all_events(process)
    last = await process.screen()
    assert (last.seq, last.rows, last.cols) == (last_seq_of(events[-1]), 6, 30)
    assert b"new" in last.data
    assert b"more" in last.data
    assert await process.screen() == last
    plain = await backend.start(words("sleep", "60"))
    with pytest.raises(NotATerminal):
        await plain.screen()


@check
async def resizes_are_told(backend: ExecBackend) -> None:
    """A new size of a terminal is an event between the output before and after; the same again is none."""
    process = await backend.start(shell("echo before; read x; echo after", tty=True, tty_size=TtySize(5, 20)))
    await until_output(process, b"before")
    for cols in (30, 30, 31):
        await process.resize(6, cols)
    await process.write(b"\n")
    events = await all_events(process)
    told = [event.data for event in events if isinstance(event, Notice)]
    assert told == [{"rows": 6, "cols": 30}, {"rows": 6, "cols": 31}]
    assert {event.kind for event in events if isinstance(event, Notice)} == {"resized"}
    kinds = [type(event) for event in events]
    assert kinds.index(Notice) > kinds.index(Output)
    assert_seqs_whole(events)


@check
async def end_of_input_on_a_terminal(backend: ExecBackend) -> None:
    """Closing stdin of a terminal ends the program's input, also in the middle of a line."""
    for data in (b"line\n", b"half", b""):
        process = await backend.start(words("cat", tty=True, tty_echo=False))
        await process.write(data, end=True)
        assert output_of(await all_events(process)) == data.replace(b"\n", b"\r\n")


@check
async def interrupt_on_a_terminal(backend: ExecBackend) -> None:
    """INT goes to the foreground group of the terminal, not to the shell that waits for it."""
    job = "trap 'echo job; exit 3' INT; echo up; while :; do sleep 0.05; done"
    line = f'trap "echo shell" INT; set -m; sh -c "{job}"; echo code $?'
    process = await backend.start(shell(line, tty=True))
    await until_output(process, b"up")
    await process.signal("INT")
    output = output_of(await all_events(process))
    assert b"job" in output
    assert b"code 3" in output
    assert b"shell" not in output


@check
async def keyboard(backend: ExecBackend) -> None:
    """A claim is told, may be repeated by its holder and given back; without a terminal there is none."""
    process = await backend.start(words("cat", tty=True))
    await process.claim_keyboard()
    await process.claim_keyboard()
    assert (await process.info()).keyboard
    await process.write(b"x\n")
    await process.release_keyboard()
    await process.release_keyboard()
    assert (await process.info()).keyboard is None
    plain = await backend.start(words("sleep", "60"))
    with pytest.raises(NotATerminal):
        await plain.claim_keyboard()


# What it uses


@check
async def usage_is_that_of_the_whole_tree(backend: ExecBackend) -> None:
    """Asked for, the whole tree is measured: time that only grows, also by who has ended, and memory."""
    burn = child("import time\nwhile time.process_time() < 0.15: pass")
    process = await backend.start(words("/bin/sh", "-c", '"$@"; sleep 60 & echo up; wait', "sh", *burn))
    assert (await process.info()).usage is None
    await until_output(process, b"up\n")
    before = (await process.info(usage=True)).usage
    assert before is not None
    assert before.processes == 2
    assert before.cpu_seconds >= 0.1
    assert 0 < before.memory_bytes < 16 << 20
    (listed,) = await backend.list_processes(usage=True)
    assert listed.usage is not None
    assert listed.usage.cpu_seconds >= before.cpu_seconds
    await process.terminate(0.0)
    await all_events(process)
    assert (await process.info(usage=True)).usage is None


# Backpressure


@check
async def pause_lets_the_command_wait(backend: ExecBackend) -> None:
    """With `pause` a command waits for its starter a budget behind it, and nothing is lost."""
    budget, size = 1 << 20, 6 << 20
    params = python(
        f"import os\nfor i in range({size >> 16}): os.write(1, bytes([i % 251]) * 65536)",
        backpressure="pause",
        log_budget=budget,
    )
    process = await backend.start(params)
    first = await process.read(0, max_bytes=1, wait=10.0)
    info = await _until_still(process)
    assert info.output_bytes["stdout"] < budget + (1 << 20)
    assert info.state == "running"
    events = list(first.chunks) + await all_events(process, after_seq=first.next_seq)
    assert_seqs_whole(events)
    assert output_of(events) == b"".join(bytes([at % 251]) * 65536 for at in range(size >> 16))


async def _until_still(process: ExecProcess) -> ProcessInfo:
    """Return the description when the process has written nothing new for a while."""
    last = -1
    async with deadline(10):
        while True:
            info = await process.wait("exited", 0.2)
            if info.output_bytes["stdout"] == last or info.exited:
                return info
            last = info.output_bytes["stdout"]


@check
async def a_follower_that_stops_lets_the_command_go_on(backend: ExecBackend) -> None:
    """A starter that does not follow any more holds nobody up."""
    params = python(
        "import os\nfor i in range(96): os.write(1, b'x' * 65536)", backpressure="pause", log_budget=1 << 20
    )
    process = await backend.start(params)
    await events_until(process, lambda seen: bool(output_of(seen)))
    assert (await process.wait("exited", 20.0)).exited


# The end of the backend


@check
async def shutdown_ends_everything(backend: ExecBackend) -> None:
    """`shutdown` ends every process by the ladder."""
    process = await backend.start(shell("sleep 60 & echo $!; wait"))
    job = int(output_of(await until_output(process, b"\n")))
    await backend.shutdown()
    await asyncio.to_thread(wait_until, lambda: not is_alive(job))


@check
async def aclose_twice(backend: ExecBackend) -> None:
    """Closing may be done twice."""
    await backend.aclose()
    await backend.aclose()
