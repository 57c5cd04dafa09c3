"""Where sockets listen on tcp, and that they stop when there are hardly any descriptors."""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import zmq

from execzmq.errors import ConnectionFailed, InvalidRequest
from execzmq.server import listening
from execzmq.server.lines import Connection, Lines, cut, is_alive
from execzmq.server.listening import Listening
from execzmq.server.network import Network, address_here, checked_address, reachable
from execzmq.server.share_store import new_pair
from execzmq.server.sockets import Sockets
from tests.server.test_sockets import endpoints
from tests.support import deadline


@pytest.mark.parametrize(
    ("ip", "endpoint"), [("192.0.2.7", "tcp://192.0.2.7:*"), ("2001:db8::7", "tcp://[2001:db8::7]:*")]
)
def test_an_address_becomes_an_endpoint(ip: str, endpoint: str) -> None:
    """Of either version of IP."""
    assert Network(checked_address(ip)).endpoint("shell") == endpoint


@pytest.mark.parametrize("ip", ["", "here", "192.0.2.256", "224.0.0.1", "tcp://192.0.2.7", "192.0.2.7:80"])
def test_what_is_no_address_is_refused(ip: str) -> None:
    """When the server begins."""
    with pytest.raises(InvalidRequest, match=r"ip address"):
        checked_address(ip)


def test_others_are_told_an_address_that_they_can_reach() -> None:
    """Also where the server listens at every one of its own."""
    assert reachable("192.0.2.7") == "192.0.2.7"
    assert reachable("0.0.0.0") == address_here() != "0.0.0.0"
    assert checked_address(address_here()) == address_here()


def _sockets(folder: Path) -> Sockets:
    return Sockets(endpoints(folder), lambda name, frames: None, lambda frame: None)


async def test_sockets_listen_and_stop_and_listen_at_the_same_ports(short_tmp: Path) -> None:
    """So the files that were handed out stay right; what was connected has been cut."""
    sockets, pair = _sockets(short_tmp), new_pair()
    try:
        ports = sockets.open_network(Network("127.0.0.1", secretkey=pair.secretkey))
        assert len({*ports, 0}) == 6
        with socket.create_connection(("127.0.0.1", ports[0]), 5.0) as guest:
            guest.setblocking(False)
            sockets.close_network()
            async with deadline(10):
                while await asyncio.get_running_loop().sock_recv(guest, 4096):
                    pass
        again = Network("127.0.0.1", ports, pair.secretkey)
        async with deadline(10):
            while True:
                try:
                    assert sockets.open_network(again) == ports
                    break
                except zmq.ZMQError:  # its listeners are ended by another thread
                    await asyncio.sleep(0)
    finally:
        sockets.close()


async def test_where_it_cannot_listen_nothing_does(short_tmp: Path) -> None:
    """Neither of the five, when one cannot; the error says at which address."""
    sockets = _sockets(short_tmp)
    bound: list[Network] = []
    tried = Listening(sockets, bound.append)
    try:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = other.getsockname()[1]
            for network in (
                Network("127.0.0.1", (0, 0, taken, 0, 0), new_pair().secretkey),
                Network("127.0.0.1", (0, 0, 0, 0, taken), new_pair().secretkey),
                Network("192.0.2.77", secretkey=new_pair().secretkey),
            ):
                with pytest.raises(ConnectionFailed, match=f"cannot listen on tcp at {network.ip}"):
                    tried.open(network)
                assert not sockets._on_network
        assert (tried.is_open, bound) == (False, [])
    finally:
        tried.close()
        sockets.close()


async def test_a_place_that_is_taken_is_tried_again(
    short_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until it is free; the log says so once."""
    sockets = _sockets(short_tmp)
    tried = Listening(sockets, lambda network: None)
    try:
        with socket.socket() as other, caplog.at_level(logging.ERROR):
            other.bind(("127.0.0.1", 0))
            other.listen()
            wanted = Network("127.0.0.1", (other.getsockname()[1], 0, 0, 0, 0), new_pair().secretkey)
            tried.look(wanted)
            tried.look(wanted)
            assert len(caplog.records) == 1
        async with deadline(10):
            while not tried.is_open:
                tried.look(wanted)
                await asyncio.sleep(0)
        tried.look(None)
        assert not tried.is_open
    finally:
        tried.close()
        sockets.close()


async def test_hardly_any_descriptors_end_the_listening_for_a_while(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It begins again when there are twice as many as it had to give up for."""
    monkeypatch.setattr(listening, "_LOOK", 0.01)
    sockets = _sockets(short_tmp)
    tried = Listening(sockets, lambda network: None)
    network = Network("127.0.0.1", secretkey=new_pair().secretkey)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        tried.open(network)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        while not held or held[-1] < 192:
            held.append(os.dup(0))
        await _until(lambda: not tried.is_open)
        assert "descriptors run out" in caplog.text
        tried.look(network)
        assert not tried.is_open
        _close(held)
        await _until(partial(_opens, tried, network))
    finally:
        _close(held)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        tried.close()
        sockets.close()


def _opens(tried: Listening, network: Network) -> bool:
    tried.look(network)
    return tried.is_open


async def _until(condition: Callable[[], bool]) -> None:
    async with deadline(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def test_a_connection_is_told_from_a_later_one_of_its_number() -> None:
    """By the inode of its socket; only the one that is meant is cut."""
    lines = Lines()
    first, far = socket.socketpair()
    connection = Connection(first.fileno(), os.fstat(first.fileno()).st_ino)
    with first, far:
        lines.note("share", connection)
        lines.sweep()
        assert lines.cut("share") == 1
        assert lines.cut("share") == 0
        assert far.recv(1) == b""
    assert not is_alive(connection)
    second, other = socket.socketpair()
    with second, other:
        if second.fileno() == connection.fd:
            assert not cut(connection)
            second.send(b"x")
            assert other.recv(1) == b"x"
    lines.note("share", connection)
    lines.note("share", None)
    lines.sweep()
    assert lines.cut("share") == 0
