"""What happens to a process becomes facts of its life, and what the table says is done."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execzmq.errors import Conflict, InvalidState, NotATerminal, ProcessNotRunning
from execzmq.process import guards
from execzmq.process.ending import End
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess
from execzmq.process.readers import Readers
from execzmq.types.results import ExitResult
from tests.process.processes import Notes, end, make_process, make_pump, start
from tests.support import deadline


async def until(process: ManagedProcess, condition: Callable[[], bool]) -> None:
    """Wait until something holds of a process."""
    async with deadline(5):
        while not condition():
            await process.wait_change(0.01)


async def test_a_whole_life(short_tmp: Path) -> None:
    """Start, output, exit and end are told in order; then everything is given up, once."""
    notes = Notes()
    process = make_process(short_tmp, notes)
    writers = start(process)
    os.write(writers["stdout"], b"hello")
    end(process, writers, 3 << 8)
    assert notes.kinds == ["started", "output", "exited", "closed"]
    assert process.result is not None
    assert (process.result.exit_code, process.result.output_bytes["stdout"]) == (3, 5)
    assert (notes.ends, notes.releases) == (1, 1)
    assert process.scope.pidfd is None
    process.release()
    process.exited(End(0, {}, process._clock()))
    process.lost()
    assert (notes.ends, notes.releases, len(notes.events)) == (1, 1, 4)


async def test_end_of_streams_after_the_exit(short_tmp: Path) -> None:
    """The end comes with the end of the last stream."""
    notes = Notes()
    process = make_process(short_tmp, notes)
    writers = start(process)
    process.exited(End(0, {}, process._clock()))
    assert process.life is Life.EXITED
    async with deadline(5):
        for writer in writers.values():
            assert not process.life.is_over
            os.close(writer)
        while not process.life.is_over:
            await process.wait_change(1.0)
    assert notes.kinds == ["started", "exited", "closed"]
    assert (notes.ends, notes.releases) == (1, 1)


async def test_failed_start(short_tmp: Path) -> None:
    """A start that failed is told, with its error, and is over."""
    notes = Notes()
    process = make_process(short_tmp, notes)
    process.spawn_failed({"ename": "CommandNotFound"})
    assert notes.events == [("failed", {"ename": "CommandNotFound"})]
    assert (notes.ends, notes.releases) == (1, 0)
    assert process.info().failure == {"ename": "CommandNotFound"}


async def test_drain_limit_discards(short_tmp: Path) -> None:
    """After the limit the process is closed; its streams are read and dropped until they end."""
    notes = Notes()
    process = make_process(short_tmp, notes, drain_limit=0.0)
    writers = start(process)
    process.exited(End(0, {}, process._clock()))
    await until(process, lambda: process.is_discarding)
    assert (notes.ends, notes.releases) == (1, 0)
    os.write(writers["stdout"], b"x" * 5000)
    for writer in writers.values():
        os.close(writer)
    await until(process, lambda: not process.is_discarding)
    assert process.streams.discarded == 5000
    assert notes.kinds == ["started", "exited", "closed"]
    assert notes.releases == 1


async def test_time_limit(short_tmp: Path) -> None:
    """A time limit is told when it strikes, and is the cause of the end."""
    notes = Notes()
    process = make_process(short_tmp, notes, timeout=0.0)
    writers = start(process)
    async with deadline(5):
        while not notes.strikes:
            await process.wait_change(0.01)
    end(process, writers, 15)
    assert process.result is not None
    assert (process.result.cause, process.result.asked_by) == ("timed_out", "time limit")


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A command that an earlier life has started: its pid."""
    with subprocess.Popen(["sleep", "60"]) as command:
        yield command.pid
        command.kill()


@pytest.mark.parametrize("step", [-100_000.0, 100_000.0])
async def test_a_step_of_the_clock_moves_no_time_limit(short_tmp: Path, step: float, sleeper: int) -> None:
    """What is taken up is neither ended at once nor left to live for ever."""
    notes = Notes()
    clock = [1000.0]
    process = make_process(short_tmp, notes, lambda: clock[0], timeout=1.5, drain_limit=0.1)
    clock[0] += step
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    readers = Readers()
    pumps = [make_pump(process, "stdout", reader, readers)]
    process.resumed(sleeper, os.pidfd_open(sleeper), 1000.0, pumps, None)
    await process.wait_change(0.05)
    assert notes.strikes == 0
    async with deadline(5):
        while not notes.strikes:
            await process.wait_change(0.01)
    clock[0] -= 2 * step
    process.exited(End(9, {}, process._clock()))
    async with deadline(5):
        while not process.life.is_over:
            await process.wait_change(0.05)
    assert process.is_discarding
    os.close(writer)
    await until(process, lambda: not process.is_discarding)
    readers.close()


async def test_time_limit_of_an_ended_command(short_tmp: Path) -> None:
    """A command that has ended in time is not timed out while others hold its streams."""
    notes = Notes()
    process = make_process(short_tmp, notes, timeout=0.0)
    writers = start(process)
    process.exited(End(0, {}, process._clock()))
    await process.wait_change(0.02)
    assert notes.strikes == 0
    for writer in writers.values():
        os.close(writer)
    process.lost()
    assert process.result is not None
    assert process.result.cause == "exited"


async def test_lost(short_tmp: Path) -> None:
    """A process out of reach is over, and nobody knows how."""
    notes = Notes()
    process = make_process(short_tmp, notes)
    writers = start(process)
    process.lost()
    assert notes.kinds == ["started", "exited", "closed"]
    assert process.result == ExitResult(
        cause="server_lost",
        started_at=100.0,
        ended_at=100.0,
        output_bytes={"stdout": 0, "stderr": 0},
        dropped_bytes={"stdout": 0, "stderr": 0},
    )
    for writer in writers.values():
        os.close(writer)


async def test_waiting_for_a_change(short_tmp: Path) -> None:
    """Who waits goes on at the next event; cancelling the wait leaves nothing."""
    process = make_process(short_tmp, Notes())
    async with deadline(5):
        waiting = [asyncio.ensure_future(process.wait_change(30.0)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        process.spawn_failed({})
        await asyncio.wait(waiting)
    assert waiting[0].cancelled()
    assert not waiting[1].cancelled()


async def test_cancelled_together_with_the_event(short_tmp: Path) -> None:
    """A cancellation that comes with the event is not lost."""
    process = make_process(short_tmp, Notes())
    waiting = asyncio.ensure_future(process.wait_change(30.0))
    await asyncio.sleep(0)
    process.spawn_failed({})
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_observer_is_told_once_that_writers_begin_to_wait(short_tmp: Path) -> None:
    """Its events are published at once then, so that a starter which waits for them can let it go on."""
    notes = Notes()
    process = make_process(short_tmp, notes, backpressure="pause", budget=10)
    writers = start(process)
    os.write(writers["stdout"], b"x" * 20)
    async with deadline(5):
        while process.log.last_seq < 2:
            await process.wait_change(1.0)
        process.streams.balance()
        assert notes.pauses == 1
        process.streams.told(process.log.last_seq)
        assert notes.pauses == 1
        os.write(writers["stdout"], b"y" * 20)
        while process.log.last_seq < 3:
            await process.wait_change(1.0)
        assert notes.pauses == 2
    end(process, writers)


async def test_pause_ends_with_the_drain_limit(short_tmp: Path) -> None:
    """A starter that lags behind does not keep the rest of a closed process from being dropped."""
    process = make_process(short_tmp, Notes(), drain_limit=0.0, backpressure="pause", budget=10)
    writers = start(process)
    os.write(writers["stdout"], b"x" * 20)
    async with deadline(5):
        while process.log.last_seq < 2:
            await process.wait_change(1.0)
        process.exited(End(0, {}, process._clock()))
        while not process.life.is_over:
            await process.wait_change(1.0)
        process.streams.told(1)
        os.write(writers["stdout"], b"y")
        for writer in writers.values():
            os.close(writer)
        while process.is_discarding:
            await process.wait_change(0.01)
    assert process.streams.discarded == 1


async def test_notices(short_tmp: Path) -> None:
    """A notice is an event like others, and none follows the end."""
    notes = Notes()
    process = make_process(short_tmp, notes)
    writers = start(process)
    process.notice("degraded", {"a": 1})
    end(process, writers)
    process.notice("late", {})
    assert notes.kinds == ["started", "notice", "exited", "closed"]


async def test_guards(short_tmp: Path) -> None:
    """What may not be done is an error that says why."""
    process = make_process(short_tmp, Notes())
    with pytest.raises(ProcessNotRunning):
        guards.require_running(process)
    writers = start(process)
    guards.require_running(process)
    with pytest.raises(NotATerminal):
        guards.require_terminal(process)
    with pytest.raises(InvalidState):
        guards.require_over(process)
    process.keyboard = "a"
    guards.require_keyboard(process, "a")
    with pytest.raises(Conflict):
        guards.require_keyboard(process, "b")
    end(process, writers)
    guards.require_over(process)
    with pytest.raises(ProcessNotRunning):
        guards.require_running(process)
