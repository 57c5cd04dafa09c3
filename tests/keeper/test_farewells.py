"""The commands that nobody wants any more: told together, and soon."""

import asyncio

from execzmq.keeper.farewells import Farewells
from tests.support import deadline


async def test_many_are_told_together() -> None:
    """One telling for all that end within a moment."""
    told: list[list[str]] = []
    done = asyncio.Event()

    def tell(ids: list[str]) -> None:
        told.append(ids)
        done.set()

    farewells = Farewells(tell)
    for name in ("a", "b", "c"):
        farewells.add(name)
    assert told == []
    async with deadline(5):
        await done.wait()
    assert told == [["a", "b", "c"]]


async def test_a_great_many_do_not_wait() -> None:
    """Their descriptors are worth more than a message."""
    told: list[list[str]] = []
    farewells = Farewells(told.append)
    for number in range(130):
        farewells.add(str(number))
    assert [len(ids) for ids in told] == [64, 64]
    farewells.flush()
    farewells.flush()
    assert told[2:] == [["128", "129"]]


async def test_what_is_dropped_is_never_told() -> None:
    """After the end of the connection there is nobody to tell."""
    told: list[list[str]] = []
    farewells = Farewells(told.append)
    farewells.add("a")
    farewells.drop()
    farewells.flush()
    assert told == []
