"""What each role may ask for, see and follow, cell by cell."""

from types import SimpleNamespace

import pytest

from execzmq.errors import InvalidRequest, PermissionRefused, ProcessNotFound
from execzmq.protocol.methods import METHODS, ROLES, Reach, reach_of
from execzmq.server.access import OWNER, PLAIN_OWNER, Peer, check_started_id
from execzmq.types.sharing import Role
from tests.shares import peer

OBSERVER, OPERATOR, GUEST_OWNER = peer("observer", "given"), peer("operator", "given"), peer("owner")
assert OPERATOR.share is not None
OWN = OPERATOR.share.prefix + "x7-1"
PEERS: dict[Role, Peer] = {"owner": GUEST_OWNER, "operator": OPERATOR, "observer": OBSERVER}

MATRIX: dict[str, tuple[Reach, Reach, Reach]] = {
    # method: owner, operator, observer
    "kernel_info": ("all", "all", "all"),
    "info": ("all", "all", "all"),
    "start": ("all", "some", "none"),
    "explain": ("all", "some", "none"),
    "profiles": ("all", "all", "none"),
    "list": ("all", "some", "some"),
    "describe": ("all", "some", "some"),
    "read": ("all", "some", "some"),
    "wait": ("all", "some", "some"),
    "screen": ("all", "some", "some"),
    "forget": ("all", "some", "none"),
    "doctor": ("all", "none", "none"),
    "signal": ("all", "some", "none"),
    "terminate": ("all", "some", "none"),
    "resize": ("all", "some", "none"),
    "claim_keyboard": ("all", "some", "none"),
    "release_keyboard": ("all", "some", "none"),
    "lease": ("all", "all", "all"),
    "share": ("all", "none", "none"),
    "shares": ("all", "none", "none"),
    "revoke": ("all", "none", "none"),
    "shutdown": ("all", "none", "none"),
    "write": ("all", "some", "none"),
}
CELLS = [
    (name, role, reach)
    for name, reaches in MATRIX.items()
    for role, reach in zip(("owner", "operator", "observer"), reaches, strict=True)
]


def test_the_matrix_has_every_method_and_role() -> None:
    """A new one has to be decided on."""
    assert set(MATRIX) == set(METHODS)
    assert set(PEERS) == set(ROLES)


@pytest.mark.parametrize(("name", "role", "reach"), CELLS)
def test_cell(name: str, role: Role, reach: Reach) -> None:
    """A role is refused what it may not, and everything but its own processes of what it may in part."""
    assert reach_of(role, name) == reach
    if reach == "none":
        with pytest.raises(PermissionRefused, match=f"{name} is for the role"):
            PEERS[role].check_method(name)
        return
    PEERS[role].check_method(name)
    if f"process_id: {'str'}" in METHODS[name].request:
        _check_processes(name, role, reach)


def _check_processes(name: str, role: Role, reach: Reach) -> None:
    seen = {"owner": {"given", OWN, "other"}, "operator": {"given", OWN}, "observer": {"given"}}[role]
    for process_id in ("given", OWN, "other", "giv", "given2"):
        request = SimpleNamespace(process_id=process_id)
        if reach == "all" or process_id in seen:
            PEERS[role].check_process(name, request)
        else:
            with pytest.raises(ProcessNotFound, match="no process has the id"):
                PEERS[role].check_process(name, request)


@pytest.mark.parametrize("own", [OWNER, PLAIN_OWNER])
def test_the_server_s_own_user_may_everything(own: Peer) -> None:
    """Over a Unix socket, and over tcp with the key."""
    for name in METHODS:
        own.check_method(name)
        own.check_process(name, SimpleNamespace(process_id="any"))
    assert not own.is_guest


@pytest.mark.parametrize("topic", [b"p.", b"p.abc.", b"p.abc.stdout", b"s.status", b"w." + b"x" * 16])
def test_an_owner_may_follow_everything(topic: bytes) -> None:
    """All processes, the server, and a welcome of its own."""
    assert OWNER.may_subscribe(topic)
    assert GUEST_OWNER.may_subscribe(topic)


@pytest.mark.parametrize(
    "topic", [b"", b"p", b"x.", b"w.", b"w.short", b"w." + b"x" * 100, b"p." + b"x" * 200, b"\xff" * 20]
)
def test_what_is_no_topic_is_refused(topic: bytes) -> None:
    """Nobody follows everything by an empty topic, nor others' welcomes by a short one."""
    assert not any(one.may_subscribe(topic) for one in (OWNER, *PEERS.values()))


@pytest.mark.parametrize(
    ("topic", "observer", "operator"),
    [
        (b"p.given.", True, True),
        (b"p.given.stdout", True, True),
        (b"p.given", False, False),
        (b"p.give", False, False),
        (b"p.given2.", False, False),
        (b"p.given-1.", False, False),
        (b"p.other.", False, False),
        (b"p.", False, False),
        (b"p..", False, False),
        (b"p.\xff.", False, False),
        (f"p.{OWN}.".encode(), False, True),
        (f"p.{OPERATOR.share.prefix}".encode(), False, True),
        (f"p.{OPERATOR.share.prefix}x".encode(), False, True),
        (f"p.{OPERATOR.share.share_id}".encode(), False, False),
        (f"p.{OPERATOR.share.share_id[:6]}".encode(), False, False),
        (b"s.", True, True),
        (b"w." + b"x" * 16, True, True),
    ],
)
def test_an_allowed_topic_is_a_prefix_of_what_is_followed(
    topic: bytes, observer: bool, operator: bool
) -> None:
    """Never the other way round, by which more would be followed than is allowed."""
    assert OBSERVER.may_subscribe(topic) is observer
    assert OPERATOR.may_subscribe(topic) is operator


def test_the_own_prefix_is_an_operator_s_alone() -> None:
    """An observer starts nothing, so nothing can be its own."""
    assert OBSERVER.share is not None
    assert not OBSERVER.sees(OBSERVER.share.prefix + "1")
    assert not OBSERVER.may_subscribe(f"p.{OBSERVER.share.prefix}".encode())


def test_ids_say_who_has_started_a_process() -> None:
    """An operator's begin with its share's id, and nobody else's do."""
    assert OPERATOR.share is not None
    check_started_id(OPERATOR, None, False)
    check_started_id(OPERATOR, OWN, True)
    check_started_id(OWNER, "any", False)
    for own, process_id, is_reserved in (
        (OPERATOR, "free", False),
        (OPERATOR, OPERATOR.share.share_id, False),
        (OPERATOR, "given", False),
        (OWNER, OWN, True),
        (GUEST_OWNER, OWN, True),
    ):
        with pytest.raises(InvalidRequest):
            check_started_id(own, process_id, is_reserved)
