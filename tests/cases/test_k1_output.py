"""Output is complete, and its end is told at the right time."""

import asyncio
import hashlib
import time
from pathlib import Path

import pytest

from execzmq.settings import Settings
from execzmq.types.backend import ExecBackend
from execzmq.types.events import Closed, Exited, Gap, Output, Started
from tests.commands import (
    all_events,
    assert_seqs_whole,
    end_of,
    exit_of,
    kinds_of,
    only,
    output_of,
    python,
    shell,
    until_output,
    words,
)
from tests.factories import Factory
from tests.support import TIMESCALE, deadline

pytestmark = pytest.mark.slow


async def test_grandchild_keeps_pipe_c01(factory: Factory, short_tmp: Path) -> None:
    """`exited` comes when the command ends, `closed` when the last writer does; output in between counts."""
    flag = short_tmp / "flag"
    async with factory() as backend:
        line = f"echo hi; (while [ ! -e {flag} ]; do sleep 0.02; done; echo job) & exit 5"
        process = await backend.start(shell(line))
        async with deadline(5):
            info = await process.wait("exited", 5.0)
        assert (info.state, info.closed) == ("exited", False)
        assert info.result is not None
        assert info.result.exit_code == 5
        flag.touch()
        events = await all_events(process)
        assert kinds_of(events) == ["started", "output", "exited", "output", "closed"]
        assert output_of(events) == b"hi\njob\n"


LINES = "i=0; while [ $i -lt 40 ]; do echo line$i; i=$((i+1)); done; exit 3"


@pytest.mark.parametrize("tty", [False, True])
async def test_last_output_before_exit_c02(factory: Factory, tty: bool) -> None:
    """All that the command wrote before it ended has a lower seq than `exited`."""

    async def once(backend: ExecBackend) -> None:
        events = await all_events(await backend.start(shell(LINES, tty=tty)))
        before = [event for event in events if event.seq < only(events, Exited).seq]  # type: ignore[union-attr]  # no gap
        assert output_of(before).split()[-1] == b"line39"
        assert exit_of(events).exit_code == 3

    async with factory() as backend:
        for _ in range(10):
            await asyncio.gather(*(once(backend) for _ in range(5)))


NUMBERS = b"".join(b"%d\n" % number for number in range(1, 2_000_001))


async def _read_by(backend: ExecBackend, size: int, budget: int | None) -> tuple[bytes, int, bytes]:
    """Read `seq` in pages of `size`; return the bytes, how many are gone, and the last output."""
    process = await backend.start(words("seq", "1", "2000000", log_budget=budget))
    assert (await process.wait("closed", 20.0)).closed
    cursor, data, gone, digest = 0, [], 0, hashlib.sha256()
    while (page := await process.read(cursor, max_bytes=size)).chunks:
        assert_seqs_whole(list(page.chunks), cursor)
        cursor = page.next_seq
        for event in page.chunks:
            if isinstance(event, Output):
                digest.update(event.data)
                data.append(event.data)
            gone += event.bytes if isinstance(event, Gap) else 0
    assert page.closed
    assert page.dropped_bytes["stdout"] == gone
    return b"".join(data), gone, data[-1]


async def test_large_output_is_whole_c04(factory: Factory) -> None:
    """A slow reader in small steps gets every byte."""
    async with factory() as backend:
        data, gone, _ = await _read_by(backend, 1000, None)
        assert gone == 0
        assert data == NUMBERS


async def test_large_output_cut_is_told_c04(factory: Factory) -> None:
    """What the budget does not hold is told as a gap with its bytes; the begin and the end are there."""
    async with factory(Settings(disk_budget=4 << 20, shutdown_grace=0.0)) as backend:
        data, gone, last = await _read_by(backend, 1 << 20, 1 << 20)
        assert gone > 0
        assert len(data) + gone == len(NUMBERS)
        assert data.startswith(NUMBERS[: 256 << 10])
        assert last.endswith(b"\n2000000\n")


async def test_stalled_reader_holds_nobody_c05(factory: Factory) -> None:
    """One who does not read on slows neither the command, nor its end, nor the others."""
    async with factory() as backend:
        process = await backend.start(python("import os; os.write(1, b'x' * 30_000_000)"))
        stalled = process.subscribe_events()
        first = await anext(aiter(stalled))
        assert isinstance(first, Started)
        other = await backend.attach(process.process_id)
        events = await all_events(other)
        assert len(output_of(events)) == 30_000_000
        assert exit_of(events).exit_code == 0
        late = [event async for event in stalled]
        assert_seqs_whole([first, *late])
        assert len(output_of(late)) == 30_000_000


async def test_stalled_reader_does_not_stop_a_kill_c05(factory: Factory) -> None:
    """What nobody reads can be killed."""
    async with factory() as backend:
        process = await backend.start(words("yes"))
        stalled = process.subscribe_events()
        await anext(aiter(stalled))
        async with deadline(5):
            report = await process.terminate(1.0)
        assert report.survivors == ()
        await stalled.aclose()  # type: ignore[attr-defined]  # both backends' iterators can be closed


async def test_closed_streams_are_no_exit_c06(factory: Factory) -> None:
    """A command that closes its streams and lives on is running, and costs nothing meanwhile."""
    async with factory() as backend:
        line = "echo a; exec >&- 2>&-; read x; exit 6"
        process = await backend.start(shell(line, stdin="pipe"))
        await until_output(process, b"a")
        used, began = time.process_time(), time.monotonic()
        info = await process.wait("exited", 0.5)
        assert time.process_time() - used < (time.monotonic() - began) / 2
        assert (info.state, info.exited, info.closed) == ("running", False, False)
        await process.write(b"\n")
        events = await all_events(process)
        assert kinds_of(events) == ["started", "output", "exited", "closed"]
        assert end_of(events).exit_code == 6


async def test_output_after_stop_is_recorded_c08(factory: Factory) -> None:
    """What a command says while it ends in its own way is heard."""
    line = 'trap "echo cleaning; sleep 0.1; echo done; exit 0" TERM; echo up; while :; do sleep 0.02; done'
    async with factory() as backend:
        process = await backend.start(shell(line))
        await until_output(process, b"up")
        await process.signal("TERM")
        events = await all_events(process)
        assert output_of(events, "stdout") == b"up\ncleaning\ndone\n"
        assert (end_of(events).exit_code, end_of(events).cause) == (0, "exited")


async def test_grace_too_short_is_seen_c08(factory: Factory) -> None:
    """A handler that takes longer than the grace is killed, and the result says so."""
    line = 'trap "echo cleaning; while :; do sleep 1; done" TERM; echo up; while :; do sleep 0.02; done'
    async with factory() as backend:
        process = await backend.start(shell(line))
        await until_output(process, b"up")
        await process.terminate(0.3)
        events = await all_events(process)
        assert output_of(events, "stdout") == b"up\ncleaning\n"
        assert (end_of(events).signal, end_of(events).cause) == (9, "terminated")


async def test_from_foreground_to_background_c09(factory: Factory) -> None:
    """First a read that waits, then polls: every event once, none missing."""
    async with factory() as backend:
        process = await backend.start(shell("echo one; read x; echo two; read x; echo three", stdin="pipe"))
        seen = list((await process.read(0, wait=5.0)).chunks)
        if b"one" not in output_of(seen):
            seen += await until_output(process, b"one", len(seen))
        await process.write(b"\n")
        seen += await until_output(process, b"two", len(seen))
        await process.write(b"\n")
        seen += await all_events(process, len(seen))
        assert_seqs_whole(seen)
        assert output_of(seen) == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("tty", [False, True])
async def test_prompt_without_newline_c11(factory: Factory, tty: bool) -> None:
    """Text without a newline comes at once, to those who come while it stands too."""
    async with factory() as backend:
        line = 'printf "Password: "; read x; echo got=$x'
        process = await backend.start(shell(line, tty=tty, stdin="null" if tty else "pipe"))
        events = await until_output(process, b"Password: ")
        assert only(events, Output).time - only(events, Started).time < 0.5 * TIMESCALE
        other = await backend.attach(process.process_id)
        await until_output(other, b"Password: ")
        await process.write(b"z\n")
        events = await all_events(other)
        assert b"got=z" in output_of(events)
        assert isinstance(events[-1], Closed)
