"""Small helpers that any test may use. Owns no state; knows the standard library only."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

TIMESCALE = float(os.environ.get("EXECZMQ_TEST_TIMESCALE", "1"))
"""Every time of a test is a multiple of this; raise it on a slow or a busy machine."""

REPOSITORY = Path(__file__).parents[1]

_POLL_SECONDS = 0.005


def ms(count: float) -> float:
    """Return `count` milliseconds in seconds, scaled for this machine."""
    return count / 1000 * TIMESCALE


def child(code: str) -> list[str]:
    """Return the argv of an unbuffered Python child that runs `code`."""
    return [sys.executable, "-u", "-c", code]


def program_env() -> dict[str, str]:
    """Return the variables of a program of the tests that is run by its path: it finds `tests`."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


class Deadline:
    """One limit around a whole wait: `async with` it, or spend `left()` over several blocking steps."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._scope: contextlib.AbstractAsyncContextManager[object] | None = None

    def left(self) -> float:
        """Return the seconds that are left.

        Raises:
            TimeoutError: The deadline has passed.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"not done within {self._seconds:g} s")
        return left

    async def __aenter__(self) -> "Deadline":
        self._scope = asyncio.timeout(self.left())
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._scope is not None
        await self._scope.__aexit__(*exc_info)  # type: ignore[arg-type]  # passed on as it came


def deadline(seconds: float) -> Deadline:
    """Return a deadline `seconds` from now, scaled for this machine."""
    return Deadline(seconds * TIMESCALE)


def no_child_is_left() -> bool:
    """Reap a child that has ended; tell whether there is none any more, as a keeper that lives on is one."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for a state that announces itself by no event, such as an entry in /proc.

    Raises:
        TimeoutError: `condition` was still false at the deadline.
    """
    limit = deadline(seconds)
    while not condition():
        time.sleep(min(_POLL_SECONDS, limit.left()))


async def pass_time(seconds: float) -> None:
    """Let time pass between two things that a test does; never to wait for what something does."""
    await asyncio.sleep(seconds)
