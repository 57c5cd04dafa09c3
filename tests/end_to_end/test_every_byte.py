"""Large outputs: to a file, to a reader that sleeps, to nobody; no byte is missed in silence."""

import subprocess
from pathlib import Path

import pytest

from execzmq.client.popen import Popen
from execzmq.types.events import Gap, Output
from tests.commands import all_events, assert_seqs_whole, words
from tests.servers import MOST_MEMORY, serving
from tests.support import deadline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MB = 1_000_000


# To a file


def run_to_file(path: Path, size: int) -> None:
    """Let `run` write `size` zeros to a file of the caller's."""
    with serving() as server, server.client() as client:
        with path.open("wb") as file:
            done = client.run(["head", "-c", str(size), "/dev/zero"], stdout=file)
        assert (done.returncode, path.stat().st_size) == (0, size)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                assert block.count(0) == len(block)
        assert server.peak_memory() < MOST_MEMORY


def test_run_writes_every_byte_to_a_file_c04(short_tmp: Path) -> None:
    """200 MB, more than a log keeps: the command waits for its reader, and nothing is lost."""
    run_to_file(short_tmp / "file", 200 * MB)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_run_writes_two_gigabytes_to_a_file_c04(short_tmp: Path) -> None:
    """The same with 2 GiB."""
    run_to_file(short_tmp / "file", 2 << 30)


# To a reader that sleeps


def test_a_reader_that_sleeps_gets_every_byte_c05() -> None:
    """A `Popen` whose pipe is not read for 2 s: the command waits, and then all of it comes."""
    size = 40 * MB
    with serving("t", "--log-budget", str(1 << 20)) as server, server.client() as client:
        pause = client.start(["sleep", "2"])
        with Popen(["head", "-c", str(size), "/dev/zero"], client=client, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"\0"
            pause.wait(30)
            assert process.poll() is None
            left = size - 1
            while block := process.stdout.read(1 << 20):
                left -= len(block)
            assert (left, process.wait(20)) == (0, 0)
        assert server.peak_memory() < MOST_MEMORY


# To nobody

LINE = 11
FIRST = 10**9


def lines(offset: int, size: int) -> bytes:
    """Return what `seq` prints at an offset when it counts from a number of ten digits."""
    begin, end = offset // LINE, (offset + size) // LINE + 1
    whole = b"".join(b"%d\n" % number for number in range(FIRST + begin, FIRST + end))
    return whole[offset - begin * LINE :][:size]


async def flood_nobody(size: int, budget: int, disk_budget: int) -> None:
    """Let a command print far more than is kept, and read what is left of it.

    The first and the newest half of the budget must be there, and the loss between them told to the byte.
    """
    count = size // LINE
    size = count * LINE
    options = ("--log-budget", str(budget), "--disk-budget", str(disk_budget))
    with serving("t", *options) as server:
        async with server.backend() as backend:
            process = await backend.start(words("seq", str(FIRST), str(FIRST + count - 1)))
            async with deadline(90):
                while not (info := await process.wait("closed", 30.0)).closed:
                    assert server.memory() < MOST_MEMORY
            events = await all_events(process, seconds=60.0)
            page = await process.read(info.last_seq)
        assert server.peak_memory() < MOST_MEMORY
    assert_seqs_whole(events)
    assert info.result is not None
    assert (info.output_bytes["stdout"], info.result.exit_code) == (size, 0)
    gaps = [event.bytes for event in events if isinstance(event, Gap)]
    kept = [event for event in events if isinstance(event, Output)]
    assert all(one.data == lines(one.offset, len(one.data)) for one in kept)
    assert len(gaps) == 1
    assert sum(len(one.data) for one in kept) + gaps[0] == size
    assert page.dropped_bytes == {"stdout": gaps[0], "stderr": 0}
    hole = next(
        n for n in range(1, len(kept)) if kept[n].offset != kept[n - 1].offset + len(kept[n - 1].data)
    )
    assert kept[0].offset == 0
    assert kept[hole].offset - gaps[0] >= budget // 2
    assert size - kept[hole].offset >= budget // 2


async def test_a_flood_to_nobody_is_bounded_c43() -> None:
    """200 MB where 8 MiB are kept and 32 are there: both ends exact, the loss told to the byte."""
    await flood_nobody(200 * MB, 8 << 20, 32 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_five_gigabytes_to_nobody_are_bounded_c43() -> None:
    """5 GB where 64 MiB are kept and 2 GiB are there."""
    await flood_nobody(5000 * MB, 64 << 20, 2 << 30)
