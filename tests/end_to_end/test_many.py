"""Many clients, many processes: nothing missed, and the server is afterwards as it was before."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from execzmq.types.backend import ExecBackend
from execzmq.types.params import ExecParams
from tests.commands import all_events, assert_seqs_whole, end_of, kinds_of, output_of, words
from tests.servers import MOST_MEMORY, ServerProcess, serving
from tests.support import deadline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SECONDS = 20.0


async def in_batches(count: int, size: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do `work` for 0 … `count`, `size` of them at a time."""
    for begin in range(0, count, size):
        async with deadline(SECONDS):
            await asyncio.gather(*map(work, range(begin, min(begin + size, count))))


# Starts


async def echo_by_fresh_clients(count: int) -> None:
    """Let each of `count` fresh clients run one command, a few at a time, and look at what each heard."""
    with serving() as server:

        async def echo(number: int) -> None:
            async with server.backend() as backend:
                process = await backend.start(words("echo", f"x{number}"))
                events = await all_events(process)
            assert kinds_of(events) == ["started", "output", "exited", "closed"]
            assert_seqs_whole(events)
            assert output_of(events) == b"x%d\n" % number

        await in_batches(count, 8, echo)
        assert server.peak_memory() < MOST_MEMORY


async def test_no_start_is_missed_c48() -> None:
    """Two hundred fresh clients each run `echo`: every event of each comes, without a sleep."""
    await echo_by_fresh_clients(200)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_no_start_is_missed_c48_at_length() -> None:
    """A thousand of them."""
    await echo_by_fresh_clients(1000)


# Processes


def cat(number: int) -> ExecParams:
    """Return a command that answers once and ends with its stdin."""
    return words("cat", stdin="pipe", process_id=f"c{number}", log_budget=1 << 20)


async def many_at_once(count: int) -> None:
    """Hold `count` processes alive at once, let each of them answer and end, and look at the server after."""
    with serving() as server:
        async with server.backend() as backend:

            async def begin(number: int) -> None:
                await backend.start(cat(number))

            async def finish(number: int) -> None:
                process = await backend.attach(f"c{number}")
                await process.write(b"hello\n", end=True)
                events = await all_events(process, seconds=SECONDS)
                assert (output_of(events), end_of(events).exit_code) == (b"hello\n", 0)

            await begin(count)
            await finish(count)  # pyzmq makes a thread and a context for the first page that it does not copy
            before = server.descriptors()
            await in_batches(count, 50, begin)
            assert (await backend.server_info()).statistics["alive"] == count
            await in_batches(count, 50, finish)
            assert (await backend.server_info()).statistics["alive"] == 0
            await until_descriptors(server, before)
            assert server.peak_memory() < MOST_MEMORY


async def until_descriptors(server: ServerProcess, most: int) -> None:
    """Wait until the server has no more than `most` descriptors open; sockets take a moment to close."""
    async with deadline(SECONDS), server.backend() as backend:
        most += 4  # of this client's own
        while server.descriptors() > most:
            await backend.server_info()


async def until_topics(backend: ExecBackend, most: int) -> None:
    """Wait until the server knows of no more subscriptions: each second it looks for those that ended."""
    async with deadline(5.0):
        while (await backend.server_info()).statistics["topics"] > most:
            pass


async def test_many_processes_at_once_x01() -> None:
    """Two hundred are alive together; each streams and ends; no descriptor is left."""
    await many_at_once(200)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_two_thousand_processes_at_once_x01() -> None:
    """With far more descriptors than `select` can take."""
    await many_at_once(2000)


# Clients


async def come_and_go(count: int) -> None:
    """Let `count` clients come, watch a process, and go; the server is then as it was after the first few."""
    with serving() as server:
        async with server.backend() as backend:
            process = await backend.start(words("sleep", "1000", process_id="p"))

            async def visit(number: int) -> None:
                async with server.backend() as visitor:
                    found = await visitor.attach("p")
                    assert (await found.read()).last_seq == 1
                    following = found.follow()
                    assert len(await following.next_batch()) == 1
                    if number % 2:
                        await following.aclose()

            await in_batches(100, 8, visit)
            descriptors, memory = server.descriptors(), server.memory()
            await in_batches(count, 8, visit)
            await until_descriptors(server, descriptors)
            await until_topics(backend, 19)
            grown = server.memory() - memory
            await process.terminate(0.0)
        assert grown < count * 1024 + (2 << 20)


async def test_clients_that_come_and_go_leave_nothing() -> None:
    """Three hundred of them: memory and descriptors stay where they were."""
    await come_and_go(300)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_five_thousand_clients_that_come_and_go_leave_nothing() -> None:
    """The same with five thousand."""
    await come_and_go(5000)
