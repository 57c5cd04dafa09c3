"""What a server remembers of its clients: answers for repeats, sessions bound to users, leases."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.errors import LimitExceeded, PermissionRefused
from execzmq.protocol.peers import Answers, Seen, Sessions
from execzmq.settings import (
    LEASE,
    REPLIES_PER_SESSION,
    REPLIES_TOTAL,
    REPLY_KEPT,
    SESSION_KEPT,
    STARTER_GONE,
)

NEW = (Seen.NEW, None)


def _answer(answers: Answers[str], msg_id: str, now: float, session: str = "s") -> None:
    assert answers.begin("u", session, msg_id, now) == NEW
    answers.finish("u", session, msg_id, f"answer to {msg_id}", now)


def test_repeat_gets_the_first_answer_c64() -> None:
    """A request that is in progress is left be; one that was answered is answered alike."""
    answers: Answers[str] = Answers()
    assert answers.begin("u", "s", "a", 0.0) == NEW
    assert answers.begin("u", "s", "a", 1.0) == (Seen.IN_PROGRESS, None)
    answers.finish("u", "s", "a", "done", 2.0)
    assert answers.begin("u", "s", "a", 3.0) == (Seen.ANSWERED, "done")


def test_same_id_of_another_peer_is_another_request_c56() -> None:
    """No user and no session meets the answers of another one."""
    answers: Answers[str] = Answers()
    _answer(answers, "a", 0.0)
    assert answers.begin("other", "s", "a", 0.0) == NEW
    assert answers.begin("u", "other", "a", 0.0) == NEW


def test_answers_are_kept_for_a_minute() -> None:
    """The time runs from the answer, and a request in progress is never forgotten."""
    answers: Answers[str] = Answers()
    assert answers.begin("u", "s", "slow", 0.0) == NEW
    _answer(answers, "a", 0.0)
    assert answers.begin("u", "s", "a", REPLY_KEPT - 0.1)[0] is Seen.ANSWERED
    assert answers.begin("u", "s", "a", REPLY_KEPT) == NEW
    assert answers.begin("u", "s", "slow", 10 * REPLY_KEPT)[0] is Seen.IN_PROGRESS


def test_oldest_answer_of_a_session_makes_room() -> None:
    """A session's 257th answer costs its own oldest one, not that of another session."""
    answers: Answers[str] = Answers()
    _answer(answers, "theirs", 0.0, session="other")
    for number in range(REPLIES_PER_SESSION + 1):
        _answer(answers, str(number), 0.0)
    assert len(answers) == REPLIES_PER_SESSION + 1
    assert answers.begin("u", "s", "1", 0.0)[0] is Seen.ANSWERED
    assert answers.begin("u", "other", "theirs", 0.0)[0] is Seen.ANSWERED
    assert answers.begin("u", "s", "0", 0.0) == NEW


def test_oldest_answer_of_all_makes_room() -> None:
    """Many sessions together stay within the bound."""
    answers: Answers[str] = Answers()
    for number in range(REPLIES_TOTAL + 10):
        _answer(answers, "a", 0.0, session=str(number))
    assert len(answers) == REPLIES_TOTAL
    assert answers.begin("u", "9", "a", 0.0) == NEW
    assert answers.begin("u", str(REPLIES_TOTAL), "a", 0.0)[0] is Seen.ANSWERED


def test_too_many_requests_in_progress_are_refused() -> None:
    """Where nothing may be forgotten, the next request is refused and nothing of it remembered."""
    answers: Answers[str] = Answers(per_session=2, total=3)
    answers.begin("u", "s", "a", 0.0)
    answers.begin("u", "s", "b", 0.0)
    with pytest.raises(LimitExceeded) as caught:
        answers.begin("u", "s", "c", 0.0)
    assert caught.value.limit == 2
    answers.begin("u", "t", "a", 0.0)
    with pytest.raises(LimitExceeded):
        answers.begin("u", "v", "a", 0.0)
    answers.finish("u", "s", "a", "done", 0.0)
    assert answers.begin("u", "v", "a", 0.0) == NEW


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=200))
def test_answers_stay_bounded(turns: list[tuple[int, int, int]]) -> None:
    """Whatever comes, no bound is passed and an answer is never another request's."""
    answers: Answers[str] = Answers(kept=10.0, per_session=3, total=6)
    now = 0.0
    for session, msg_id, action in turns:
        now += action
        key = ("u", str(session), str(msg_id))
        if action == 0:
            answers.finish(*key, str(key), now)
        else:
            try:
                _, answer = answers.begin(*key, now)
            except LimitExceeded:
                answer = None
            assert answer in (None, str(key))
        assert len(answers) <= 6
        assert all(0 < len(own) <= 3 for own in answers._of_session.values())
        assert sum(map(len, answers._of_session.values())) == len(answers)


def test_session_belongs_to_its_first_user() -> None:
    """The id of a session is worth nothing under another identity."""
    sessions = Sessions()
    sessions.hear("s", "1000", 0.0)
    sessions.hear("s", "1000", 1.0)
    with pytest.raises(PermissionRefused):
        sessions.hear("s", "share", 2.0)
    assert sessions.is_gone("s", 1.0 + STARTER_GONE)


def test_lease_runs_out_once_and_can_be_renewed() -> None:
    """The end of a lease is told once; a renewed one ends anew."""
    sessions = Sessions()
    sessions.hear("s", "u", 0.0)
    sessions.lease("s", 10.0, 0.0)
    assert (sessions.expired(9.9), sessions.expired(10.0), sessions.expired(11.0)) == ([], ["s"], [])
    sessions.hear("s", "u", 12.0)
    sessions.lease("s", 10.0, 12.0)
    assert sessions.count_leases(21.9) == 1
    assert sessions.expired(22.0) == ["s"]


@pytest.mark.parametrize(("seconds", "until"), [(0.0, 5.0), (-1.0, 5.0), (1e9, 5.0 + LEASE), (3.0, 8.0)])
def test_lease_is_at_most_thirty_seconds(seconds: float, until: float) -> None:
    """More counts as 30 s; none ends the lease at once, as a client does that closes."""
    sessions = Sessions()
    sessions.hear("s", "u", 0.0)
    sessions.lease("s", seconds, 5.0)
    assert sessions.count_leases(until) == 0
    assert until == 5.0 or sessions.count_leases(until - 0.1) == 1


def test_first_word_counts_as_a_lease() -> None:
    """A client that dies before its first lease is noticed like any other."""
    sessions = Sessions()
    sessions.hear("s", "u", 0.0)
    assert sessions.count_leases(LEASE - 0.1) == 1
    assert sessions.expired(LEASE) == ["s"]
    assert sessions.count_leases(LEASE) == 0


def test_starter_that_says_nothing_is_gone_until_it_speaks() -> None:
    """Ten silent seconds make a starter gone, one word brings it back."""
    sessions = Sessions()
    assert sessions.is_gone("s", 0.0)
    sessions.hear("s", "u", 0.0)
    assert not sessions.is_gone("s", STARTER_GONE - 0.1)
    assert sessions.is_gone("s", STARTER_GONE)
    sessions.hear("s", "u", STARTER_GONE)
    assert not sessions.is_gone("s", STARTER_GONE)


def test_answer_that_nobody_asked_for_is_not_kept() -> None:
    """Only the answer of a request in progress is remembered."""
    answers: Answers[str] = Answers()
    answers.finish("u", "s", "a", "late", 0.0)
    assert len(answers) == 0


def test_silent_sessions_are_forgotten() -> None:
    """A minute after its lease a silent session is gone, a talking one is not."""
    sessions = Sessions()
    sessions.hear("quiet", "u", 0.0)
    sessions.hear("talks", "u", 0.0)
    sessions.hear("talks", "u", LEASE + 30.0)
    sessions.expired(LEASE + SESSION_KEPT)
    assert len(sessions) == 1


def test_sessions_are_bounded() -> None:
    """One more session than there is room for is refused; the others are served."""
    sessions = Sessions(most=2)
    sessions.hear("a", "u", 0.0)
    sessions.hear("b", "u", 0.0)
    with pytest.raises(LimitExceeded):
        sessions.hear("c", "u", 0.0)
    sessions.hear("a", "u", 1.0)


def test_clients_that_come_and_go_leave_nothing() -> None:
    """Five thousand clients leave the memory where it was."""
    sessions, answers = Sessions(), Answers[str]()

    def come_and_go(rounds: int, now: float) -> None:
        for number in range(rounds):
            session = f"{now}-{number}"
            sessions.hear(session, "u", now)
            _answer(answers, "a", now, session)
        later = now + LEASE + SESSION_KEPT + 1.0
        sessions.expired(later)
        answers.expire(later)

    come_and_go(100, 0.0)
    tracemalloc.start()
    try:
        come_and_go(5000, 1000.0)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (len(sessions), len(answers)) == (0, 0)
    assert left < 1_000_000
