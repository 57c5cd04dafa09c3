"""Nobody's work holds up another client's."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from execzmq.types.backend import ExecBackend, ExecProcess
from tests.commands import python, shell, until_output, words
from tests.servers import MOST_MEMORY, serving
from tests.support import deadline, ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NOT_READING = "import time, tty; tty.setraw(0); print('up'); time.sleep(1000)"
PASTE = 8 << 20
PIECE = 1 << 20
ROUNDS = 5


async def test_requests_are_answered_while_others_print_and_paste_c17() -> None:
    """Ten commands print at full speed and 8 MB wait for a terminal: p99 is under 50 ms and a kill works.

    Where the machine itself is busy with other things, one of a few rounds must show it.
    """
    with serving() as server, before_others(server.pid), before_others(os.getpid()):
        async with server.backend() as others, server.backend() as honest:
            floods = [await others.start(shell("yes", log_budget=1 << 20)) for _ in range(10)]
            typist = await others.start(python(NOT_READING, tty=True))
            await until_output(typist, b"up")
            async with pasting(typist):
                assert await best_p99(honest) < ms(50)
                victim = await honest.start(words("sleep", "1000"))
                async with deadline(5):
                    assert (await victim.terminate(0.0)).ended
            await asyncio.gather(*(one.terminate(0.0) for one in [*floods, typist]))
        assert server.peak_memory() < MOST_MEMORY


@contextlib.contextmanager
def before_others(pid: int) -> Iterator[None]:
    """Let a thread go before whatever else the machine does, where this user may have that."""
    usual = os.getpriority(os.PRIO_PROCESS, pid)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, -10)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, pid, usual)


@contextlib.asynccontextmanager
async def pasting(process: ExecProcess) -> AsyncIterator[None]:
    """Paste into a terminal meanwhile that takes nothing."""

    async def paste() -> None:
        for _ in range(PASTE // PIECE):
            await process.write(b"paste---" * (PIECE // 8))
        await process.write(b"x" * PASTE)  # more than may wait

    task = asyncio.ensure_future(paste())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def best_p99(backend: ExecBackend) -> float:
    """Return the seconds within which 99 of 100 requests were answered, in the best of a few rounds."""
    best = 1e9
    for _ in range(ROUNDS):
        took = []
        for _ in range(200):
            begin = time.perf_counter()
            await backend.server_info()
            took.append(time.perf_counter() - begin)
        best = min(best, sorted(took)[-3])
        if best < ms(50):
            break
    return best
