"""The heart beats whatever the server does."""

from pathlib import Path

import zmq

from execzmq.server.auth import Admission
from execzmq.server.heart import Heart
from tests.support import ms


def test_it_echoes_while_nobody_else_works(short_tmp: Path) -> None:
    """What a client sends comes back to it, from a thread of its own."""
    endpoint = f"ipc://{short_tmp}/hb"
    heart = Heart([endpoint], Admission())
    with zmq.Context() as context, context.socket(zmq.DEALER) as one, context.socket(zmq.REQ) as stock:
        for socket in (one, stock):
            socket.linger = 0
            socket.connect(endpoint)
        one.send_multipart([b"", b"ping"])
        stock.send(b"ping")
        assert one.poll(int(1000 * ms(5000)))
        assert one.recv_multipart() == [b"", b"ping"]
        assert stock.poll(int(1000 * ms(5000)))
        assert stock.recv() == b"ping"
    heart.close()


def test_large_messages_are_not_taken(short_tmp: Path) -> None:
    """A connection that sends them is closed, and the others are served."""
    endpoint = f"ipc://{short_tmp}/hb"
    heart = Heart([endpoint], Admission())
    with zmq.Context() as context, context.socket(zmq.DEALER) as bad, context.socket(zmq.DEALER) as good:
        for socket in (bad, good):
            socket.linger = 0
            socket.connect(endpoint)
        bad.send(bytes(100_000))
        good.send(b"ping")
        assert good.poll(int(1000 * ms(5000)))
        assert not bad.poll(int(1000 * ms(100)))
    heart.close()


def test_its_end_leaves_nothing(short_tmp: Path) -> None:
    """Closing may be done twice."""
    heart = Heart([f"ipc://{short_tmp}/hb"], Admission())
    heart.close()
    heart.close()
