"""What is sent in one turn of the loop leaves at its end."""

import asyncio
from typing import Any, cast

import pytest
import zmq

from execzmq.server.outgoing import Outgoing


class FakePort:
    """A port that keeps what it is given, or takes nothing."""

    def __init__(self, takes: bool | Exception = True) -> None:
        self.takes = takes
        self.sent: list[tuple[bytes, bool]] = []

    def send(self, frames: list[bytes], *, copy: bool) -> bool:
        """Take a message."""
        if isinstance(self.takes, Exception):
            raise self.takes
        self.sent.append((b"".join(frames), copy))
        return self.takes


async def test_all_of_a_turn_leaves_at_its_end_in_order() -> None:
    """Nothing before, and what is sent by other means of the turn afterwards as well."""
    outgoing, one, two = Outgoing(), FakePort(), FakePort()
    outgoing.send(cast(Any, one), [b"a", b"b"])
    outgoing.send(cast(Any, two), [b"c"], copy=False)
    outgoing.send(cast(Any, one), [b"d"])
    assert one.sent == two.sent == []
    await asyncio.sleep(0)
    assert one.sent == [(b"ab", True), (b"d", True)]
    assert two.sent == [(b"c", False)]
    outgoing.send(cast(Any, two), [b"e"])
    await asyncio.sleep(0)
    assert two.sent[1:] == [(b"e", True)]
    assert outgoing.unsent == 0


async def test_a_message_that_cannot_be_sent_costs_no_other() -> None:
    """Whatever is wrong with it: it is told of, and counted."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    outgoing, broken, there = Outgoing(), FakePort(IndexError("no frames")), FakePort()
    outgoing.send(cast(Any, broken), [])
    outgoing.send(cast(Any, there), [b"b"])
    await asyncio.sleep(0)
    assert there.sent == [(b"b", True)]
    assert outgoing.unsent == len(told) == 1


@pytest.mark.parametrize("takes", [False, zmq.ZMQError(zmq.EHOSTUNREACH)])
async def test_a_client_that_is_gone_costs_a_count_x06(takes: bool | Exception) -> None:
    """A reply that finds no client, or no room, is dropped and counted, and the others leave."""
    outgoing, gone, there = Outgoing(), FakePort(takes), FakePort()
    outgoing.send(cast(Any, gone), [b"a"])
    outgoing.send(cast(Any, there), [b"b"])
    await asyncio.sleep(0)
    assert outgoing.unsent == 1
    assert there.sent == [(b"b", True)]
