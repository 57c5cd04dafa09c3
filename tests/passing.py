"""Time that passes because that is what a test is about: a stop of three seconds, lines at a pace.

Never to wait for something: that announces itself, or is asked for by `wait_until`.
"""

import asyncio

from tests.support import ms


async def pace(milliseconds: float) -> None:
    """Let others work for as long as it takes to the next line, or to the next kill."""
    await asyncio.sleep(ms(milliseconds))


async def stand_still(seconds: float) -> None:
    """Let a stop last; it is not scaled, as what is counted against it is not."""
    await asyncio.sleep(seconds)
