"""Who may come in, and what a peer may see."""

import os

import pytest

from execzmq.server.auth import Peer, judge, peer_of

OWNER = Peer("owner", "owner")
OBSERVER = Peer("share", "observer")


def ask(
    domain: bytes = b"ipc", address: bytes = b"localhost:7:7:99", mechanism: bytes = b"NULL"
) -> list[bytes]:
    """Return a ZAP request as libzmq sends it."""
    return [b"1.0", b"1", domain, address, b"", mechanism]


def test_the_server_s_own_user_comes_in_as_owner() -> None:
    """The address that libzmq names is that of SO_PEERCRED."""
    assert judge(ask(), uid=7)[2:5] == [b"200", b"OK", b"owner"]


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
    ],
)
def test_everyone_else_is_refused(request_: list[bytes]) -> None:
    """Another user, an unnamed one, another domain or mechanism gets 400 and no name."""
    answer = judge(request_, uid=7)
    assert answer[2] == b"400"
    assert answer[4] == b""


@pytest.mark.parametrize("request_", [[], [b"1.0"], [b"2.0", b"1", b"ipc", b":7:7:1", b"", b"NULL"]])
def test_what_is_no_zap_request_gets_no_judgement(request_: list[bytes]) -> None:
    """A message of another version or shape is not guessed at."""
    assert judge(request_, uid=os.getuid()) == []


def test_only_known_names_are_peers() -> None:
    """An id that ZAP never gave names nobody."""
    assert peer_of("owner") == OWNER
    assert peer_of(None) is None
    assert peer_of("somebody") is None


def test_a_role_may_what_those_below_it_may() -> None:
    """The roles are ordered."""
    assert OWNER.may("observer")
    assert OWNER.may("owner")
    assert not OBSERVER.may("operator")


@pytest.mark.parametrize("topic", [b"p.", b"p.abc.", b"p.abc.stdout", b"s.status", b"w." + b"x" * 16])
def test_an_owner_may_follow_everything(topic: bytes) -> None:
    """All processes, the server, and a welcome of its own."""
    assert OWNER.may_subscribe(topic)


@pytest.mark.parametrize(
    "topic", [b"", b"p", b"x.", b"w.", b"w.short", b"w." + b"x" * 100, b"p." + b"x" * 200]
)
def test_what_is_no_topic_is_refused(topic: bytes) -> None:
    """Nobody follows everything by an empty topic, nor others' welcomes by a short one."""
    assert not OWNER.may_subscribe(topic)


def test_an_observer_follows_nothing_by_itself() -> None:
    """Only what a share names, which this version has none of."""
    assert not OBSERVER.may_subscribe(b"p.abc.")
    assert OBSERVER.may_subscribe(b"w." + b"x" * 16)
