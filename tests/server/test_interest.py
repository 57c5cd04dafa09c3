"""Which processes anybody watches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.server import interest
from execzmq.server.interest import Interest
from execzmq.settings import MAX_TOPICS

IDS = ("a", "ab", "a-1")
TOPICS = [b"p.", b"p.a", b"p.a.", b"p.a.stdout", b"p.ab.", b"p.a-", b"s.", b"w." + b"x" * 16]


def watched_by_hand(topics: list[bytes], process_id: str) -> bool:
    """Return whether ZeroMQ would deliver any message about a process."""
    kinds = (b"started", b"stdout", b"stderr", b"exited", b"closed", b"failed", b"notice", b"tail")
    messages = [b"p." + process_id.encode() + b"." + kind for kind in kinds]
    return any(message.startswith(topic) for topic in topics for message in messages)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(TOPICS), st.integers(3, 5))))
def test_interest_is_what_zeromq_would_deliver(steps: list[tuple[bool, bytes, int]]) -> None:
    """After any subscriptions and ends of them, a process is watched exactly if a message would arrive."""
    seen = Interest()
    there: list[tuple[bytes, int]] = []
    for begins, topic, connection in steps:
        if begins:
            seen.add(topic, connection)
            there.append((topic, connection))
        elif (topic, connection) in there:
            seen.remove(topic, connection)
            there.remove((topic, connection))
        for process_id in IDS:
            assert seen.watches(process_id) == watched_by_hand([t for t, _ in there], process_id)
    assert len(seen) == len({topic for topic, _ in there})


def test_no_more_is_remembered_than_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that starts one command after the other under one subscription costs no memory."""
    monkeypatch.setattr(interest, "_MOST_VERDICTS", 10)
    watched = Interest()
    watched.add(b"p.a-", 3)
    for number in range(100):
        assert watched.watches(f"a-{number}")
        assert not watched.watches(f"b-{number}")
        assert len(watched._verdicts) <= 10


def test_the_end_of_what_never_was_changes_nothing() -> None:
    """libzmq reports the end of refused subscriptions too."""
    interest = Interest()
    interest.remove(b"p.a.", 3)
    interest.add(b"p.a.", 3)
    interest.remove(b"p.b.", None)
    assert interest.watches("a")


def test_an_end_without_a_connection_is_booked_to_one_that_has_the_topic() -> None:
    """When a connection goes, libzmq names the topics and not the connection."""
    interest = Interest()
    interest.add(b"p.a.", 3)
    interest.add(b"p.a.", 4)
    interest.remove(b"p.a.", None)
    assert interest.watches("a")
    interest.remove(b"p.a.", None)
    assert not interest.watches("a")


def test_a_connection_has_a_bound_of_its_own() -> None:
    """One that asks for too much leaves the others their room."""
    interest = Interest()
    for number in range(MAX_TOPICS):
        interest.add(b"p.%d." % number, 3)
    assert not interest.has_room(3)
    assert interest.has_room(4)
    interest.remove(b"p.0.", 3)
    assert interest.has_room(3)


@pytest.mark.parametrize("process_id", IDS)
def test_nobody_watches_at_first(process_id: str) -> None:
    """So nothing is packed."""
    assert not Interest().watches(process_id)
