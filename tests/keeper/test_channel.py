"""Packets and descriptors over a pair of sockets: none lost, none left open."""

import os
import socket
from collections.abc import Iterator

import pytest

from execzmq.keeper.channel import MAX_DESCRIPTORS, MAX_INLINE_BYTES, Channel, Packet

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected channels."""
    ends = [Channel(sock) for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]
    yield ends[0], ends[1]
    for end in ends:
        end.close()


def received(channel: Channel) -> Packet:
    """Take a packet that must be there."""
    packet = channel.receive()
    assert packet is not None
    return packet


def same_file(one: int, other: int) -> bool:
    """Tell whether two descriptors are of one file."""
    return os.path.sameopenfile(one, other)


def test_packet_with_descriptors(pair: Pair) -> None:
    """Descriptors arrive in order, close-on-exec, as the receiver's own."""
    ends = os.pipe()
    assert pair[0].try_send(b"hello", ends)
    packet = received(pair[1])
    assert (packet.body, packet.cut) == (b"hello", False)
    assert all(same_file(*both) for both in zip(packet.fds, ends, strict=True))
    assert not any(os.get_inheritable(fd) for fd in packet.fds)
    for fd in (*packet.fds, *ends):
        os.close(fd)
    assert pair[1].receive() is None


@pytest.mark.parametrize("size", [1, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 5_000_000])
def test_body_of_any_size(pair: Pair, size: int) -> None:
    """A body that no packet holds travels in memory, with its descriptors still in order."""
    body = os.urandom(size)
    assert pair[0].try_send(body, [0])
    packet = received(pair[1])
    assert packet.body == body
    assert len(packet.fds) == 1
    assert same_file(packet.fds[0], 0)
    os.close(packet.fds[0])


def test_most_descriptors(pair: Pair) -> None:
    """A packet carries as many descriptors as the kernel allows."""
    assert pair[0].try_send(b"x", [0] * MAX_DESCRIPTORS)
    packet = received(pair[1])
    assert len(packet.fds) == MAX_DESCRIPTORS
    for fd in packet.fds:
        os.close(fd)


def test_full_socket_queues_and_keeps_order(pair: Pair) -> None:
    """What finds no room waits, in order, and its descriptors are closed when it has gone."""
    count = 0
    while pair[0].try_send(b"%d" % count + b"." * 50_000):
        count += 1
    copy = os.dup(0)
    pair[0].send_later(lambda: (b"with fd", [copy]), [copy])
    pair[0].send_later(lambda: (b"last", ()))
    assert not pair[0].flush()
    assert not pair[0].try_send(b"overtaking")
    for number in range(count):
        assert received(pair[1]).body.startswith(b"%d." % number)
    assert pair[0].must_flush
    assert pair[0].flush()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(copy)
    packet = received(pair[1])
    assert packet.body == b"with fd"
    os.close(packet.fds[0])
    assert received(pair[1]).body == b"last"


def test_close_drops_what_waits(pair: Pair) -> None:
    """Closing closes the descriptors of packets that were never sent; it is idempotent."""
    copy = os.dup(0)
    pair[0].send_later(lambda: (b"", [copy]), [copy])
    pair[0].close()
    pair[0].close()
    assert pair[0].fileno() == -1
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(copy)


def test_end_of_the_other_side(pair: Pair) -> None:
    """What was sent before the end is still received, then the end is told."""
    pair[0].try_send(b"bye")
    pair[0].close()
    assert received(pair[1]).body == b"bye"
    with pytest.raises(EOFError):
        pair[1].receive()
    with pytest.raises(BrokenPipeError):
        pair[1].try_send(b"too late")
