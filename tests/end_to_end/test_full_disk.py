"""A state folder on a disk of 1 MB: processes finish, loss is stated, the service recovers."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.errors import SpawnFailed
from execzmq.settings import KIB, MIB
from execzmq.types.backend import ExecBackend, ExecProcess
from execzmq.types.events import Event, Gap, Notice
from tests.commands import (
    all_events,
    assert_seqs_whole,
    end_of,
    events_until,
    output_of,
    shell,
    until_output,
    words,
)
from tests.servers import MOST_MEMORY, serving
from tests.support import deadline

IS_ROOT = os.getuid() == 0 and sys.platform == "linux"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk"),
]


@pytest.fixture(autouse=True)
def small_disk(state_home: Path) -> Iterator[Path]:
    """Put a disk of 1 MB where the state folders are."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", str(state_home)], check=True)
    try:
        yield state_home
    finally:
        subprocess.run(["umount", "--lazy", str(state_home)], check=True)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Let somebody else have all the room meanwhile."""
    other = folder / "other"
    with other.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4 * KIB))
    try:
        yield
    finally:
        other.unlink()


def lost_in(events: list[Event]) -> int:
    """Return the bytes of all gaps."""
    return sum(event.bytes for event in events if isinstance(event, Gap))


def notices_of(events: list[Event]) -> list[str]:
    """Return the kinds of the notices."""
    return [event.kind for event in events if isinstance(event, Notice)]


async def until_notice(process: ExecProcess, kind: str, after_seq: int = 0) -> list[Event]:
    """Return the events up to a notice of that kind."""
    return await events_until(process, lambda seen: kind in notices_of(seen), after_seq)


async def until_whole(backend: ExecBackend) -> None:
    """Wait until a command's output is no longer held in memory; leave nothing that takes the room."""
    async with deadline(30):
        is_held = True
        while is_held:
            process = await backend.start(shell("echo x"))
            events = await all_events(process)
            assert_seqs_whole(events)
            assert (output_of(events), lost_in(events)) == (b"x\n", 0)
            is_held = "degraded" in notices_of(events)
            await process.forget()


async def test_a_flood_ends_with_its_loss_stated_x03() -> None:
    """Several commands print more than the disk has, at full speed, and nobody waits for room."""
    size = 30 * MIB
    with serving() as server:
        async with server.backend() as backend:
            floods = [await backend.start(words("head", "-c", str(size), "/dev/zero")) for _ in range(4)]
            for flood in floods:
                events = await all_events(flood, seconds=60)
                assert_seqs_whole(events)
                result = end_of(events)
                assert (result.exit_code, len(output_of(events)) + lost_in(events)) == (0, size)
                assert result.output_bytes["stdout"] == size
                page = await flood.read(0)
                assert page.dropped_bytes["stdout"] >= size - 2 * MIB
            for flood in floods:
                await flood.forget()
            await until_whole(backend)
        assert server.peak_memory() < MOST_MEMORY


@pytest.fixture
def fifo(short_tmp: Path) -> Path:
    """A way to let a command go on, without its stdin, which needs room on the disk."""
    os.mkfifo(short_tmp / "fifo")
    return short_tmp / "fifo"


async def tell(fifo: Path) -> None:
    """Let the command go on that reads a line of it."""
    await asyncio.to_thread(fifo.write_text, "\n")


async def test_what_fits_into_memory_is_not_lost_x03(small_disk: Path, fifo: Path) -> None:
    """The disk is full for a while: what comes meanwhile is read at once, and written when there is room."""
    with serving() as server:
        async with server.backend() as backend:
            line = f"seq 1000; read x <{fifo}; seq 30000; read x <{fifo}; seq 1000"
            process = await backend.start(shell(line))
            first = output_of(await until_output(process, b"\n1000\n"))
            with filled(small_disk):
                await tell(fifo)
                await until_notice(process, "degraded")
                told = output_of(await until_output(process, b"\n30000\n"))
            await until_notice(process, "recovered")
            await tell(fifo)
            events = await all_events(process)
            assert_seqs_whole(events)
            notices = notices_of(events)
            assert notices == ["degraded", "recovered"] * (len(notices) // 2)
            assert output_of(events).startswith(told)
            middle = b"".join(b"%d\n" % number for number in range(1, 30001))
            assert output_of(events) == first + middle + first
            assert end_of(events).dropped_bytes == {"stdout": 0, "stderr": 0}


async def test_a_starter_that_is_the_reader_loses_nothing_x03(small_disk: Path) -> None:
    """With `pause` the command waits where the memory is used up, until its reader has what was held."""
    size = 20 * MIB
    with serving() as server:
        async with server.backend() as backend:
            with filled(small_disk):
                params = words("head", "-c", str(size), "/dev/zero", backpressure="pause")
                events = await all_events(await backend.start(params), seconds=60)
            assert_seqs_whole(events)
            assert (len(output_of(events)), lost_in(events)) == (size, 0)


async def start_many(backend: ExecBackend, count: int) -> None:
    """Start commands whose starts take room in the journal."""
    for _ in range(count):
        await backend.start(shell("exit 4 # " + "x" * 1000))


async def test_a_crash_on_a_full_disk_x03(small_disk: Path, fifo: Path) -> None:
    """The next server begins on the full disk, and takes starts until not even the reserve has room."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(shell(f"echo a; read x <{fifo}; seq 30000; read x <{fifo}; exit 3"))
            await until_output(process, b"a\n")
            with filled(small_disk):
                await tell(fifo)
                await until_notice(process, "degraded")
                server.kill()
                with serving() as again:
                    async with again.backend() as later:
                        after = await later.attach(process.process_id)
                        assert after.instance != process.instance
                        with pytest.raises(SpawnFailed, match="make room"):
                            await start_many(later, 500)
                        (small_disk / "other").write_bytes(b"")
                        await until_whole(later)
                        await tell(fifo)
                        assert end_of(await all_events(after)).exit_code == 3
                        for info in await later.list_processes():
                            assert info.result is not None
                            assert info.result.exit_code in (0, 3, 4)


async def test_starts_leave_room_for_what_must_be_x03(small_disk: Path) -> None:
    """Half of the reserve is for ends and for the next server: that knows how each command has ended."""
    with serving() as server:
        async with server.backend() as backend:
            with filled(small_disk):
                with pytest.raises(SpawnFailed, match="make room"):
                    await start_many(backend, 500)
                count = len(await backend.list_processes())
                server.kill()
                with serving() as again:
                    async with again.backend() as later:
                        infos = await later.list_processes()
                        assert len(infos) == count > 0
                        for info in infos:
                            process = await later.attach(info.process_id)
                            assert end_of(await all_events(process)).exit_code == 4
