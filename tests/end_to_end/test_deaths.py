"""A server is killed while clients work, and another one of its name is started: what they notice of it."""

import asyncio
import hashlib
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from execzmq.client.remote import RemoteBackend, RemoteProcess
from execzmq.errors import ServerLost
from execzmq.types.events import Event
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    is_alive,
    output_of,
    python,
    shell,
    until_output,
    words,
)
from tests.end_to_end.watchers import watching
from tests.lives import Lives, lives
from tests.raw import raw
from tests.servers import serving
from tests.support import child, deadline, ms, pass_time

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

COUNT = """
import hashlib, sys, time
begin = sys.stdin.readline()
digest = hashlib.sha256()
for number in range(int(sys.argv[1])):
    line = b"%d %b\\n" % (number, b"x" * (number % 7000))
    digest.update(line)
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    time.sleep(0.002)
open(sys.argv[2], "w").write(digest.hexdigest())
sys.exit(42)
"""
"""Prints lines of all sizes for some seconds, tells their digest, and ends with 42."""

DIGEST = """
import hashlib, sys
digest, size = hashlib.sha256(), 0
while piece := sys.stdin.buffer.read(65536):
    digest.update(piece)
    size += len(piece)
print(size, digest.hexdigest())
"""


@asynccontextmanager
async def connected(server: Lives) -> AsyncIterator[RemoteBackend]:
    """Be a client of the server, whichever lives."""
    async with server.now.backend() as backend:
        yield backend


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Future[None]"]:
    """Do something beside the block, which ends when both have; an error in the block cancels it."""
    task = asyncio.ensure_future(work)
    try:
        yield task
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _kill_ten_times(server: Lives) -> None:
    """Kill it at other moments of its life each time; some clients have not come back by then."""
    for number in range(10):
        await pass_time(ms(40 * (number % 5)))
        await asyncio.to_thread(server.die_and_begin)


async def test_five_watchers_and_the_starter_through_ten_kills(short_tmp: Path) -> None:
    """Each sees every byte once and in order, and the true result."""
    truth = short_tmp / "digest"
    command = words(*child(COUNT), "5000", str(truth), process_id="p", stdin="pipe")
    with lives() as server:
        async with connected(server) as backend:
            process = await backend.start(command)
            following = asyncio.ensure_future(all_events(process, seconds=100))
            await process.write(b"go\n", end=True)
            with watching(server.now, "p", 5) as watchers:
                await _kill_ten_times(server)
                events = await following
                said = {await asyncio.to_thread(one.said) for one in watchers}
            last_seq = (await process.info()).last_seq
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        assert hashlib.sha256(output_of(events)).hexdigest() == truth.read_text()
        assert end_of(events).exit_code == 42
        assert said == {f"{len(output_of(events))} {truth.read_text()} {last_seq} 0"}


async def test_no_byte_of_stdin_is_lost_or_doubled_through_ten_kills() -> None:
    """A `write` goes on at the offset that the new server names."""
    digest, size = hashlib.sha256(), 0
    with lives() as server:
        async with connected(server) as backend:
            process = await backend.start(words(*child(DIGEST), process_id="p", stdin="pipe"))
            async with meanwhile(_kill_ten_times(server)) as killing:
                while not killing.done():
                    data = b"%d" % size * 3000
                    await process.write(data)
                    digest.update(data)
                    size += len(data)
                    await asyncio.sleep(0)
            await process.write(b"", end=True)
            events = await all_events(process)
        assert output_of(events).decode().split() == [str(size), digest.hexdigest()]


async def test_waits_and_long_polls_go_on() -> None:
    """So do `events` that have not begun; nobody is told of an end that was none."""
    with lives() as server:
        async with connected(server) as backend:
            process = await backend.start(words("cat", process_id="p", stdin="pipe"))
            exited = asyncio.ensure_future(process.wait("exited", 30.0))
            page = asyncio.ensure_future(process.read(1, wait=30.0))
            async with aclosing(process.subscribe_events()) as events:
                first = asyncio.ensure_future(anext(events))
                await asyncio.to_thread(server.die_and_begin)
                async with deadline(10):
                    assert (await first).seq == 1  # type: ignore[union-attr]  # no Gap
            assert not exited.done()
            await process.write(b"x", end=True)
            async with deadline(10):
                assert (await exited).exited
                assert (await page).chunks
            assert output_of(await all_events(process)) == b"x"


@pytest.mark.parametrize("method", ["signal", "terminate", "resize"])
async def test_what_cannot_be_repeated_says_so(method: str) -> None:
    """The server dies before it answers: whether it was done is not known, and it is not done twice."""
    with lives() as server:
        async with connected(server) as backend:
            process = await backend.start(words("cat", process_id="p", tty=_tty()))
            pid = (await process.info()).pid
            assert pid is not None
            server.now.signal(signal.SIGSTOP)
            asking = asyncio.ensure_future(_ask(process, method))
            await asyncio.sleep(0)  # it is on its way
            assert not asking.done()
            await asyncio.to_thread(server.die_and_begin)
            async with deadline(10):
                with pytest.raises(ServerLost, match=f"whether {method} was done is not known"):
                    await asking
            assert is_alive(pid)
            await process.terminate(0.0)


def _tty():
    from execzmq.types.params import TtySize

    return TtySize(24, 80)


async def _ask(process: RemoteProcess, method: str) -> None:
    if method == "signal":
        await process.signal("KILL")
    elif method == "terminate":
        await process.terminate(0.0)
    else:
        await process.resize(40, 132)


async def test_a_start_is_repeated_and_done_once(short_tmp: Path) -> None:
    """Whether the dead server had begun it or not: one process, and the caller gets it."""
    marks = short_tmp / "marks"
    with lives() as server:
        async with connected(server) as backend:
            for number in range(6):
                if number % 2:
                    server.now.signal(signal.SIGSTOP)
                command = shell(f"echo {number} >> {marks}; cat", process_id=f"p{number}", stdin="pipe")
                starting = asyncio.ensure_future(backend.start(command))
                await pass_time(ms(3 * number))
                await asyncio.to_thread(server.die_and_begin)
                async with deadline(10):
                    process = await starting
                await process.write(b"x", end=True)
                assert output_of(await all_events(process)) == b"x"
    assert marks.read_text().split() == [str(number) for number in range(6)]


async def test_signals_for_an_earlier_life_are_refused() -> None:
    """By the name of the life that they were meant for: a process that was started since is not hit."""
    with lives() as server:
        async with connected(server) as backend:
            process = await backend.start(words("sleep", "1000", process_id="p"))
            epoch = server.now.info.epoch
            await asyncio.to_thread(server.die_and_begin)
            contents = {
                "signal": {"process_id": "p", "signal": 9},
                "terminate": {"process_id": "p", "grace": 0.0},
                "shutdown": {},
            }
            with raw(server.now.info) as late:
                for method, content in contents.items():
                    answer = await asyncio.to_thread(late.ask, method, {**content, "epoch": epoch})
                    assert answer.content["ename"] == "WrongEpoch"
            assert (await process.info()).state == "running"


async def test_without_a_next_server_it_is_said_in_time() -> None:
    """Calls, waits and iterators end with `ServerLost` after the stated five seconds."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(python("input()", stdin="pipe", process_id="p"))
            following = asyncio.ensure_future(_follow(process))
            await until_output(await backend.start(shell("echo up")), b"up")
            server.kill()
            asked = [asyncio.ensure_future(one) for one in (process.info(), process.wait("closed", 30.0))]
            async with deadline(10):
                for one in (*asked, following):
                    with pytest.raises(ServerLost):
                        await one
        with serving() as second, second.client() as client:
            assert client.attach("p").kill().ended


async def _follow(process: RemoteProcess) -> list[Event]:
    return [event async for event in process.subscribe_events()]
