"""Who may come in, and under which name."""

import os

import pytest
import zmq
from zmq.utils import z85

from execzmq.server.access import OWNER, PLAIN_OWNER
from execzmq.server.auth import Admission, judge
from execzmq.server.guard import Guard
from execzmq.server.lines import Lines
from execzmq.server.shares import ShareBook
from tests.shares import share

SHARE = share()
KEY = z85.decode(SHARE.publickey)
KEYS = {KEY: SHARE.share_id}
STRANGER = z85.decode(zmq.curve_keypair()[0])


def ask(
    domain: bytes = b"ipc", address: bytes = b"localhost:7:7:99", mechanism: bytes = b"NULL", *key: bytes
) -> list[bytes]:
    """Return a ZAP request as libzmq sends it."""
    return [b"1.0", b"1", domain, address, b"", mechanism, *key]


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (ask(), OWNER.user_id),  # the address that libzmq names is that of SO_PEERCRED
        (ask(b"tcp", b"192.0.2.7", b"CURVE", KEY), SHARE.share_id),
        (ask(b"tcp-plain", b"192.0.2.7"), PLAIN_OWNER.user_id),
    ],
)
def test_who_comes_in_gets_a_name(request_: list[bytes], name: str) -> None:
    """The server's own user, the holder of a share, and anybody where the user has asked for that."""
    assert judge(request_, 7, KEYS)[2:5] == [b"200", b"OK", name.encode()]


@pytest.mark.parametrize(
    "request_",
    [
        ask(address=b"localhost:8:7:99"),
        ask(address=b"localhost"),
        ask(address=b""),
        ask(address=b"localhost::7:7"),
        ask(domain=b""),
        ask(domain=b"tcp"),
        ask(mechanism=b"PLAIN"),
        ask(b"ipc", b"localhost:8:7:99", b"CURVE", KEY),
        ask(b"tcp", b"192.0.2.7", b"CURVE", STRANGER),
        ask(b"tcp", b"192.0.2.7", b"CURVE", b""),
        ask(b"tcp", b"192.0.2.7", b"CURVE"),
        ask(b"tcp", b"192.0.2.7", b"PLAIN", KEY),
        ask(b"tcp", b"localhost:7:7:99"),
        ask(b"tcp-plain", b"192.0.2.7", b"CURVE", KEY),
    ],
)
def test_everyone_else_is_refused(request_: list[bytes]) -> None:
    """Another user, an unnamed one, another key, domain or mechanism gets 400 and no name."""
    answer = judge(request_, 7, KEYS)
    assert answer[2] == b"400"
    assert answer[4] == b""


@pytest.mark.parametrize("request_", [[], [b"1.0"], [b"2.0", b"1", b"ipc", b":7:7:1", b"", b"NULL"]])
def test_what_is_no_zap_request_gets_no_judgement(request_: list[bytes]) -> None:
    """A message of another version or shape is not guessed at."""
    assert judge(request_, os.getuid(), KEYS) == []


def test_only_known_names_are_peers() -> None:
    """An id that ZAP never gave names nobody, nor does one whose share has ended."""
    now = 1500.0
    book = ShareBook()
    book.add(SHARE)
    guard = Guard(b"key", "e1", book, Lines(), lambda: now)
    assert (guard.peer_of("owner"), guard.peer_of("network")) == (OWNER, PLAIN_OWNER)
    assert guard.peer_of(None) is None
    assert guard.peer_of("somebody") is None
    peer = guard.peer_of(SHARE.share_id)
    assert peer is not None
    assert (peer.role, peer.share, peer.way) == ("observer", SHARE, "curve")
    assert guard.is_current(peer)
    now = 2000.0
    assert guard.peer_of(SHARE.share_id) is None
    assert not guard.is_current(peer)
    assert guard.is_current(OWNER)


def test_keys_are_set_as_a_whole() -> None:
    """Whoever is not among them any more does not come in."""
    admission, other = Admission(), share()
    admission.allow([SHARE, other])
    assert len(admission.keys) == 2
    admission.allow([other])
    assert admission.keys == {z85.decode(other.publickey): other.share_id}
