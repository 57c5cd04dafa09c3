"""What the server sends to its keeper goes at once, or waits for room."""

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from execzmq.keeper.channel import Channel
from execzmq.keeper.outbox import Outbox


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Both ends of a connection."""
    ours, theirs = (Channel(sock) for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    yield ours, theirs
    ours.close()
    theirs.close()


def fill(outbox: Outbox, channel: Channel) -> int:
    """Send until something must wait; return how many packets that were."""
    count = 0
    while not channel.must_flush:
        outbox.send(b"x" * 10_000, [0])
        count += 1
    return count


async def test_wait_for_room(ends: tuple[Channel, Channel]) -> None:
    """It is over at once where nothing waits, else when all has gone; nobody has copies then."""
    ours, theirs = ends
    broken: list[Exception] = []
    outbox = Outbox(ours, broken.append)
    await outbox.wait_empty()
    before = len(os.listdir("/proc/self/fd"))
    count = fill(outbox, ours)
    waiting = [asyncio.ensure_future(outbox.wait_empty()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    for _ in range(count - 1):
        packet = theirs.receive()
        assert packet is not None
        os.close(packet.fds[0])
    await asyncio.gather(*waiting)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not broken
    outbox.close()


@pytest.mark.parametrize("by_us", [True, False])
async def test_wait_for_room_ends_with_the_connection(ends: tuple[Channel, Channel], by_us: bool) -> None:
    """Nothing will be sent any more."""
    ours, theirs = ends
    broken: list[Exception] = []
    outbox = Outbox(ours, broken.append)
    fill(outbox, ours)
    waiting = asyncio.ensure_future(outbox.wait_empty())
    await asyncio.sleep(0)
    if by_us:
        outbox.close()
    else:
        theirs.close()
    await waiting
    assert len(broken) == (not by_us)
    outbox.close()
