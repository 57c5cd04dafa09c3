"""When a command waits for its starter."""

from execzmq.process.backlog import RELEASED, Backlog


class Log:
    """A log whose events have 100 bytes each on stdout."""

    def __init__(self, events: int) -> None:
        self.last_seq = events
        self.ends = {"stdout": events * 100, "stderr": 0}

    def ends_at(self, seq: int) -> dict[str, int]:
        """Return where the streams were after an event."""
        return {"stdout": seq * 100, "stderr": 0}


def test_waits_a_budget_behind() -> None:
    """The command waits as soon as a budget of output is not yet told as received."""
    backlog = Backlog(1000)
    assert not backlog.must_pause(Log(9))
    assert backlog.must_pause(Log(10))
    assert backlog.unreceived(Log(10)) == 1000


def test_goes_on_when_told() -> None:
    """What the starter has received holds up nobody; the cursor never goes back."""
    backlog = Backlog(1000)
    assert backlog.told(5, Log(10))
    assert backlog.unreceived(Log(10)) == 500
    assert not backlog.must_pause(Log(14))
    assert backlog.must_pause(Log(15))
    assert not backlog.told(3, Log(15))
    assert backlog.seq == 5


def test_everything_received() -> None:
    """At the end of the log nothing is outstanding."""
    backlog = Backlog(1000)
    backlog.told(10, Log(10))
    assert backlog.unreceived(Log(10)) == 0
    assert backlog.unreceived(Log(12)) == 200


def test_a_cursor_beyond_the_log_costs_no_byte() -> None:
    """Who tells more than there is has received at most what there was: nothing is dropped too early."""
    backlog = Backlog(1000)
    backlog.told(50, Log(10))
    assert backlog.unreceived(Log(10)) == 0
    assert backlog.unreceived(Log(60)) >= 1000


def test_released() -> None:
    """A starter that follows no more holds up nobody, and lets everything go."""
    backlog = Backlog(1000)
    backlog.told(RELEASED, Log(50))
    assert not backlog.must_pause(Log(1_000_000))


def test_gone_and_back() -> None:
    """While the starter is gone nothing waits and anything may be dropped; back again, all counts."""
    backlog = Backlog(1000)
    backlog.gone = True
    assert not backlog.must_pause(Log(50))
    assert backlog.keep_after is None
    backlog.gone = False
    assert backlog.must_pause(Log(50))
    assert backlog.keep_after == 0


def test_waits_earlier_where_room_is_short() -> None:
    """Where the disk budget is short a mebibyte is enough, or the budget if that is less."""
    large, small = Backlog(64 << 20), Backlog(1000)
    large.is_short = small.is_short = True
    assert large.must_pause(Log((1 << 20) // 100 + 1))
    assert not large.must_pause(Log(10_000))
    assert small.must_pause(Log(10))
    assert not small.must_pause(Log(9))
