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
    seen: Interest[int] = Interest()
    there: set[tuple[bytes, int]] = set()
    for begins, topic, connection in steps:
        if begins:
            seen.add(topic, connection)
            there.add((topic, connection))
        elif (topic, connection) in there:
            seen.remove(topic, connection)
            there.remove((topic, connection))
        for process_id in IDS:
            now = [topic for topic, _ in there]
            assert seen.watches(process_id) == watched_by_hand(now, process_id)
            if (family := seen.family(process_id)) is not None:
                together = f"p.{family}*".encode()
                assert all(together.startswith(t) for t in now if watched_by_hand([t], process_id))
    assert len(seen) == len({topic for topic, _ in there})


@pytest.mark.parametrize(
    ("topics", "process_id", "family"),
    [
        ([b"p.a-"], "a-1", "a-"),
        ([b"p.", b"p.a-"], "a-1", "a-"),
        ([b"p.a-", b"p.a-1."], "a-1", None),
        ([b"p.a-", b"p.a-1.stdout"], "a-1", None),
        ([b"p.a-", b"p.a-1."], "a-2", "a-"),
        ([b"p.a-"], "a-b-1", "a-b-"),
        ([b"p.a."], "a", None),
    ],
)
def test_those_who_watch_kin_alike_are_told_together(
    topics: list[bytes], process_id: str, family: str | None
) -> None:
    """Unless one of them watches by more than the part that the ids share."""
    seen: Interest[int] = Interest()
    for topic in topics:
        seen.add(topic, 3)
    assert seen.family(process_id) == family


def test_no_more_is_remembered_than_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that starts one command after the other under one subscription costs no memory."""
    monkeypatch.setattr(interest, "_MOST_VERDICTS", 10)
    watched: Interest[int] = Interest()
    watched.add(b"p.a-", 3)
    for number in range(100):
        assert watched.watches(f"a-{number}")
        assert not watched.watches(f"b-{number}")
        assert len(watched._verdicts) <= 10


def test_the_end_of_what_never_was_changes_nothing() -> None:
    """Nobody ends a subscription of another's: neither by saying so, nor by having asked for it in vain."""
    interest: Interest[int] = Interest()
    interest.remove(b"p.a.", 3)
    interest.add(b"p.a.", 3)
    interest.remove(b"p.b.", None)
    interest.remove(b"p.a.", None)
    interest.remove(b"p.a.", 4)
    assert interest.watches("a")


def test_connections_that_have_gone_are_looked_for() -> None:
    """When one goes, libzmq names the topics and not the connection."""
    interest: Interest[int] = Interest()
    interest.add(b"p.a.", 3)
    interest.add(b"p.a.", 4)
    interest.sweep(lambda connection: connection == 4)
    assert interest.watches("a")
    interest.sweep(lambda _: False)
    assert not interest.watches("a")
    assert len(interest) == 0


def test_a_second_subscription_to_a_topic_is_none() -> None:
    """So it is for libzmq, which reports one end of the two."""
    interest: Interest[int] = Interest()
    interest.add(b"p.a.", 3)
    interest.add(b"p.a.", 3)
    interest.remove(b"p.a.", 3)
    assert not interest.watches("a")


def test_very_many_refused_subscriptions_are_too_many() -> None:
    """libzmq keeps each of them, as long as their connection lives."""
    interest: Interest[int] = Interest()
    assert not any(interest.refused(3) for _ in range(MAX_TOPICS))
    assert interest.refused(3)
    assert not interest.refused(4)
    interest.sweep(lambda connection: connection == 4)
    assert not interest.refused(3)


def test_a_connection_has_a_bound_of_its_own() -> None:
    """One that asks for too much leaves the others their room."""
    interest: Interest[int] = Interest()
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
