"""One command, many watchers, each a program of its own: every byte once and in order."""

import asyncio
from pathlib import Path

import pytest

from tests.commands import python, words
from tests.end_to_end.watchers import watching
from tests.servers import MOST_MEMORY, serving
from tests.support import child

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BURSTS, BURST = 60, 1_000_000
PRINT = """
import hashlib, sys, time
print("begun", flush=True)
sys.stdin.readline()
digest = hashlib.sha256(b"begun\\n")
for number in range(int(sys.argv[1])):
    piece = (b"%09d " % number) * (int(sys.argv[2]) // 10)
    digest.update(piece)
    sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    time.sleep(0.05)
open(sys.argv[3], "w").write(digest.hexdigest())
"""
"""Prints for three seconds or more, from the moment on that it is told to."""

FLOOD = "import os\nos.write(1, b'begun ')\ninput()\nwhile True: os.write(1, b'x' * 65536)"


async def test_five_watchers_see_the_same_c49(short_tmp: Path) -> None:
    """Of 60 MB, one stopped for 3 s and one that comes afterwards: every byte once, the same last seq."""
    truth = short_tmp / "digest"
    command = words(*child(PRINT), str(BURSTS), str(BURST), str(truth), process_id="p", stdin="pipe")
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(command)
            with watching(server, "p", 4) as watchers:
                watchers[0].stop()
                await process.write(b"go\n", end=True)
                said = [await asyncio.to_thread(one.said) for one in watchers[1:]]
                watchers[0].go_on()
                said.append(await asyncio.to_thread(watchers[0].said))
            with watching(server, "p", 1) as late:
                said.append(await asyncio.to_thread(late[0].said))
            last_seq = (await process.info()).last_seq
        assert set(said) == {f"{BURSTS * BURST + 6} {truth.read_text()} {last_seq} 0"}
        assert server.peak_memory() < MOST_MEMORY


async def stop_five_watchers(size: int) -> None:
    """Stop five watchers while a command prints at full speed; look at the memory, and let them go on."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(python(FLOOD, process_id="p", stdin="pipe", log_budget=16 << 20))
            with watching(server, "p", 5) as watchers:
                for one in watchers:
                    one.stop()
                await process.write(b"go\n", end=True)
                while (await process.wait("exited", 0.2)).output_bytes["stdout"] < size:
                    assert server.memory() < MOST_MEMORY
                await process.terminate(0.0)
                for one in watchers:
                    one.go_on()
                ends = [(await asyncio.to_thread(one.said)).split() for one in watchers]
            last = await process.wait("closed", 10.0)
        for got, _, seq, lost in ends:
            assert (int(got) + int(lost), int(seq)) == (last.output_bytes["stdout"], last.last_seq)
        assert server.peak_memory() < MOST_MEMORY


async def test_stopped_watchers_cost_the_server_little() -> None:
    """Below 100 MB with five of them; when they go on, what they lack is counted to the byte."""
    await stop_five_watchers(300_000_000)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_stopped_watchers_cost_the_server_little_at_length() -> None:
    """The same, until 5 GB have been printed."""
    await stop_five_watchers(5_000_000_000)
