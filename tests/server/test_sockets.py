"""The server's sockets: their end comes whatever their clients do."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
import zmq

from execzmq.server import termination
from execzmq.server.sockets import Endpoints, Sockets
from execzmq.zmqloop import Frames
from tests.support import deadline

CLIENTS = 50
ROUNDS = 100


def endpoints(folder: Path) -> Endpoints:
    """Return five places to listen at."""
    return Endpoints(*((f"ipc://{folder}/s-{number}",) for number in range(1, 6)))


async def test_no_listener_lingers_without_end(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit stands before `bind`: libzmq takes it from there for a client that leaves during the end."""
    seen: dict[str, int] = {}
    bind = zmq.Socket.bind

    def watched(socket: zmq.Socket[bytes], address: str) -> object:
        seen[address] = int(socket.getsockopt(zmq.LINGER))
        return bind(socket, address)

    monkeypatch.setattr(zmq.Socket, "bind", watched)
    sockets = Sockets(endpoints(short_tmp), lambda name, frames: None, lambda frame: None)
    sockets.close()
    assert len(seen) == 6
    assert all(0 <= milliseconds <= 500 for milliseconds in seen.values())


async def test_a_context_that_does_not_end_is_left(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """libzmq waits for a socket that nobody closes, and the rest of the end goes on."""
    monkeypatch.setattr(termination, "TERMINATION", 0.05)
    sockets = Sockets(endpoints(short_tmp), lambda name, frames: None, lambda frame: None)
    forgotten = sockets._context.socket(zmq.DEALER)
    sockets.close()
    assert "is left: execzmq-term" in caplog.text
    assert not os.listdir(short_tmp)
    forgotten.close()


@pytest.mark.soak
async def test_clients_that_leave_during_the_end_do_not_hold_it_up(short_tmp: Path) -> None:
    """Fifty at once, with replies on the way to each: without the limit one round in ten never ends."""
    for number in range(ROUNDS):
        await _end_while_they_leave(short_tmp, number % CLIENTS)


async def _end_while_they_leave(folder: Path, gone: int) -> None:
    asked: asyncio.Queue[None] = asyncio.Queue()

    def answer(name: str, frames: Frames) -> None:
        asked.put_nowait(None)
        for _ in range(20):
            sockets.requests[name].send([frames[0], bytes(100_000)])

    sockets = Sockets(endpoints(folder), answer, lambda frame: None)
    with zmq.Context() as context:
        clients = [context.socket(zmq.DEALER) for _ in range(CLIENTS)]
        for client in clients:
            client.linger = 0
            client.rcvhwm = 1  # so that most of what it is sent waits with the server
            client.connect(f"ipc://{folder}/s-1")
            client.send(b"go")
        async with deadline(20):
            for _ in clients:
                await asked.get()
        some_have_left = threading.Event()
        leaving = threading.Thread(target=_leave, args=(clients, gone, some_have_left))
        leaving.start()
        some_have_left.wait()
        sockets.close()
        leaving.join()


def _leave(clients: list[zmq.Socket[bytes]], gone: int, some_have_left: threading.Event) -> None:
    for number, client in enumerate(clients):
        if number == gone:
            some_have_left.set()
        client.close()
