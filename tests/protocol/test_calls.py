"""Calls: matched by id, repeated under the same id, given up in time, sorted when the server is a new one."""

from execzmq.protocol.calls import Call, Calls
from execzmq.protocol.methods import METHODS
from execzmq.settings import REPLY_KEPT, RESEND_AFTER


def _opened(*methods: str, deadline: float | None = 1000.0) -> Calls[str]:
    calls: Calls[str] = Calls()
    for method in methods:
        calls.open(method, method, f"payload of {method}", 0.0, deadline)
    return calls


def _ids(calls: list[Call[str]]) -> list[str]:
    return [call.msg_id for call in calls]


def test_reply_finds_its_call_whatever_the_order() -> None:
    """Replies are matched by id, not by order."""
    calls = _opened("info", "list")
    for name in ("list", "info"):
        call = calls.match(name)
        assert call is not None
        assert call.payload == f"payload of {name}"
    assert (len(calls), calls.late) == (0, 0)


def test_late_and_double_replies_are_counted_and_dropped() -> None:
    """A reply that nobody waits for does no harm and shows in the statistics."""
    calls = _opened("info", "list")
    calls.match("info")
    calls.drop("list")
    for msg_id in ("info", "list", "never", None, 7, ["info"]):
        assert calls.match(msg_id) is None
    assert calls.late == 6


def test_call_is_given_up_at_its_deadline() -> None:
    """No call waits for ever."""
    calls = _opened("info", deadline=3.0)
    assert calls.next_due() == 3.0
    assert not calls.due(2.9).over
    assert _ids(calls.due(3.0).over) == ["info"]
    assert (len(calls), calls.next_due()) == (0, None)


def test_unanswered_request_is_repeated_c64() -> None:
    """A request without reply is sent again every few seconds, under its id."""
    calls = _opened("start")
    assert calls.next_due() == RESEND_AFTER
    assert not calls.due(RESEND_AFTER - 0.1).again
    assert _ids(calls.due(RESEND_AFTER).again) == ["start"]
    assert calls.next_due() == 2 * RESEND_AFTER
    assert not calls.due(RESEND_AFTER).again


def test_changing_request_is_not_repeated_after_its_answer_may_be_forgotten_c64() -> None:
    """Repeats of a changing method end while the server still keeps its answer."""
    calls, now, sent = _opened("terminate", "info"), 0.0, {"terminate": 0.0, "info": 0.0}
    while (due_at := calls.next_due()) is not None and due_at < 200.0:
        now = due_at
        for call in calls.due(now).again:
            sent[call.msg_id] = now
    assert REPLY_KEPT - 2 * RESEND_AFTER <= sent["terminate"] < REPLY_KEPT
    assert sent["info"] > 190.0


def test_changing_request_is_not_repeated_after_a_sleep_of_the_machine_c64() -> None:
    """A client that wakes up late does not repeat what the server has forgotten by then."""
    calls = _opened("terminate", "info")
    assert _ids(calls.due(500.0).again) == ["info"]
    assert calls.next_due() == 500.0 + RESEND_AFTER


def test_long_poll_is_repeated_only_after_its_time() -> None:
    """A request that may rightly wait 30 s is not sent again after five."""
    calls: Calls[str] = Calls()
    calls.open("a", "read", "", 0.0, None, wait=30.0)
    assert calls.next_due() == 30.0 + RESEND_AFTER
    assert _ids(calls.due(30.0 + RESEND_AFTER).again) == ["a"]
    assert calls.next_due() == 2 * (30.0 + RESEND_AFTER)


def test_new_epoch_lets_what_was_never_sent_leave() -> None:
    """Of what the old server never heard it is known that it was not done: the new one gets it."""
    calls = _opened("signal", "terminate")
    due = calls.on_new_epoch(50.0, lambda call: call.method == "signal")
    assert (_ids(due.again), _ids(due.over)) == (["terminate"], ["signal"])


def test_new_epoch_sorts_the_calls_c59() -> None:
    """What can be repeated is sent to the new server; of the rest the outcome is not known."""
    calls = _opened(*METHODS)
    due = calls.on_new_epoch(50.0)
    assert set(_ids(due.over)) == {"forget", "signal", "terminate", "resize", "share", "revoke", "shutdown"}
    assert {"start", "write", "read", "info", "lease"} <= set(_ids(due.again))
    assert len(due.over) + len(due.again) == len(METHODS)
    assert len(calls) == len(due.again)
    assert calls.next_due() == 50.0 + RESEND_AFTER


def test_calls_of_a_socket_that_any_server_answers_rightly() -> None:
    """What is harmless to repeat, and a write; no signal, of which a new server would not say the truth."""
    calls: Calls[None] = Calls()
    for method in ("lease", "signal", "write", "list", "lease"):
        calls.open(f"{len(calls)} {method}", method, None, 0.0, None)
    assert [call.msg_id for call in calls.lasting("control")] == ["0 lease", "4 lease"]
    assert [call.msg_id for call in calls.lasting("stdin")] == ["2 write"]


def test_fail_all_forgets_everything() -> None:
    """When the client closes, every caller is told."""
    calls = _opened("info", "start")
    assert _ids(calls.fail_all()) == ["info", "start"]
    assert (len(calls), calls.next_due()) == (0, None)


def test_open_ids_are_those_of_the_method() -> None:
    """A client tells which reads it still waits for."""
    calls = _opened("info")
    calls.open("r1", "read", "", 0.0, None)
    calls.open("r2", "read", "", 0.0, None)
    calls.match("r1")
    assert calls.open_ids("read") == ["r2"]
