"""The client's own net under a time limit."""

import asyncio

import pytest

from execzmq.client import limit
from execzmq.client.limit import within
from execzmq.types.results import ExitResult
from tests.support import ms

ENDED = ExitResult(exit_code=3)


async def ends() -> ExitResult:
    """Be a command that ends."""
    return ENDED


async def goes_on() -> ExitResult:
    """Be a command of whose end nothing is told."""
    await asyncio.Event().wait()
    return ENDED


async def never() -> None:
    """Be what must not be called."""
    raise AssertionError


async def test_an_end_in_time_is_the_result() -> None:
    """With a limit or without."""
    assert await within(None, ends(), never) is ENDED
    assert await within(0.0, ends(), never) is ENDED


async def test_an_end_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some time after the limit the command is ended, and the limit is the result."""
    monkeypatch.setattr(limit, "NET", ms(10))
    ended = asyncio.Event()

    async def end() -> None:
        ended.set()

    assert (await within(ms(10), goes_on(), end)) == ExitResult(cause="timed_out")
    assert ended.is_set()


async def test_another_timeout_is_not_taken_for_the_limit() -> None:
    """What the work itself raises is passed on."""

    async def fails() -> ExitResult:
        raise TimeoutError("other")

    with pytest.raises(TimeoutError, match="other"):
        await within(60.0, fails(), never)
