"""A socket on a loop: nothing that arrives is overlooked, and a fault costs one message."""

import asyncio
from collections.abc import Iterator

import pytest
import zmq

from execzmq.zmqloop import Frames, ZmqPort
from tests.support import deadline

MANY = 10_000


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """A context that ends with the test."""
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


class Pair:
    """Two connected sockets, one of them a port whose messages are kept."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], turn: int = 64) -> None:
        self.got: list[list[bytes]] = []
        self.wanted = 0
        self.arrived = asyncio.Event()
        here, self.there = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        for socket in (here, self.there):
            socket.set_hwm(0)
        here.bind("inproc://pair")
        self.there.connect("inproc://pair")
        self.port = ZmqPort(here, self.keep, turn=turn)

    def keep(self, frames: Frames) -> None:
        """Keep a message; wake the test when all are there."""
        self.got.append([frame.bytes for frame in frames])
        if len(self.got) >= self.wanted:
            self.arrived.set()

    async def wait(self, count: int) -> None:
        """Wait until so many messages are there."""
        self.wanted = count
        if len(self.got) < count:
            self.arrived.clear()
            async with deadline(20):
                await self.arrived.wait()

    def close(self) -> None:
        """Close both ends."""
        self.port.close()
        self.there.close(0)


async def test_everything_arrives_in_order(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """However much there is at once, in turns of any size."""
    pair = Pair(context, turn=7)
    for number in range(MANY):
        pair.there.send_multipart([b"%d" % number, b"x"])
    await pair.wait(MANY)
    assert pair.got == [[b"%d" % number, b"x"] for number in range(MANY)]
    pair.close()


async def test_sending_swallows_no_arrival_c53(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """The descriptor is edge-triggered, and a send takes edges; what came meanwhile is found all the same."""
    pair = Pair(context)
    for number in range(500):
        pair.there.send(b"%d" % number)
        assert pair.port.send([b"answer", b"of", b"mine"])
        await pair.wait(number + 1)
    pair.close()


async def test_what_cannot_be_sent_is_told(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """False where there is no peer, at once."""
    port = ZmqPort(context.socket(zmq.PUSH), lambda frames: None)
    assert not port.send([b"x"])
    port.close()


async def test_a_router_tells_that_a_peer_is_gone(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """As an error, and the port goes on."""
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    port = ZmqPort(router, lambda frames: None)
    with pytest.raises(zmq.ZMQError) as caught:
        port.send([b"nobody", b"x"])
    assert caught.value.errno == zmq.EHOSTUNREACH
    port.close()


async def test_a_fault_costs_one_message(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """The loop's exception handler learns of it, and the next message is handled."""
    pair = Pair(context)
    told: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: told.set_result(about))
    keep, pair.port._on_message = pair.port._on_message, lambda frames: 1 // 0  # type: ignore[assignment]  # a fault
    pair.there.send(b"bad")
    async with deadline(5):
        about = await told
    pair.port._on_message = keep
    pair.there.send(b"good")
    await pair.wait(1)
    assert isinstance(about["exception"], ZeroDivisionError)
    assert pair.got == [[b"good"]]
    pair.close()


async def test_close_is_idempotent(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """And leaves no reader on the loop."""
    pair = Pair(context)
    pair.close()
    pair.port.close()


async def test_room_that_comes_while_a_send_fails_is_told(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """The last look of a send in vain takes the edge: whoever waits for room must hear of it all the same."""
    here, there = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    for socket in (here, there):
        socket.set_hwm(1)
    there.bind("inproc://full")
    here.connect("inproc://full")
    told = asyncio.Event()
    port = ZmqPort(here, lambda _: None, on_idle=told.set)
    while port.send([b"x"]):
        pass
    await asyncio.sleep(0)
    told.clear()
    look = port._has

    def with_room(event: int) -> bool:
        if event & zmq.POLLIN:
            while there.poll(0):
                there.recv()
        return look(event)

    port._has = with_room  # type: ignore[method-assign]  # the moment between two looks
    assert not port.send([b"y"])
    async with deadline(5):
        await told.wait()
    assert port.send([b"y"])
    port.close()
