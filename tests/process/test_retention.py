"""Who gives space back first, who is never touched, and which finished processes are kept."""

from hypothesis import given
from hypothesis import strategies as st

from execzmq.process.retention import Forget, LogStat, Shrink, disk_limit, expired, plan
from execzmq.settings import FINISHED_AGE, FINISHED_KEPT, FINISHED_MOST, GIB, KIB, MIB

BUDGET = 64 * MIB


def _ids(actions) -> list[str]:
    return [action.process_id for action in actions]


def test_nothing_happens_within_the_limit():
    """As long as all logs together fit, none loses a byte, however far beyond its budget it is."""
    assert plan([LogStat("a", 2 * GIB, BUDGET)], 2 * GIB) == []


def test_largest_finished_and_unread_gives_first():
    """The middle beyond the budgets goes first of finished logs that nobody has read, the largest first."""
    stats = [
        LogStat("running", 900 * MIB, BUDGET),
        LogStat("read", 800 * MIB, BUDGET, closed_at=1.0, read=True),
        LogStat("small", 300 * MIB, BUDGET, closed_at=2.0),
        LogStat("large", 500 * MIB, BUDGET, closed_at=3.0),
    ]
    assert _ids(plan(stats, 2300 * MIB))[0] == "large"
    assert _ids(plan(stats, 800 * MIB)) == ["large", "small", "running", "read"]


def test_no_more_is_dropped_than_is_needed():
    """A log gives what is missing and some headroom, not all beyond its budget."""
    (action,) = plan([LogStat("a", 1100 * MIB, BUDGET)], 1024 * MIB)
    assert action == Shrink("a", 1100 * MIB - (1100 - 1008) * MIB)


def test_finished_logs_go_before_running_ones_lose_their_budget():
    """When all are within their budgets, whole finished logs go, the oldest first, followed ones last."""
    stats = [
        LogStat("running", 60 * MIB, BUDGET),
        LogStat("followed", 60 * MIB, BUDGET, closed_at=1.0, followed=True),
        LogStat("new", 60 * MIB, BUDGET, closed_at=9.0),
        LogStat("old", 60 * MIB, BUDGET, closed_at=2.0),
    ]
    assert plan(stats, 200 * MIB) == [Forget("old")]
    assert plan(stats, 128 * MIB) == [Forget("old"), Forget("new")]
    assert plan(stats, 70 * MIB) == [Forget("old"), Forget("new"), Forget("followed")]


def test_a_log_without_files_is_not_forgotten_for_space():
    """Forgetting a process that has no output would free nothing."""
    stats = [LogStat("silent", 0, BUDGET, closed_at=1.0), LogStat("running", 60 * MIB, BUDGET)]
    assert Forget("silent") not in plan(stats, 50 * MIB)


def test_logs_that_would_free_next_to_nothing_are_not_forgotten():
    """A few small ones, alone or beside a large one; many of them are as good as a large one."""
    small = [LogStat(f"small{number}", 4 * KIB, BUDGET, closed_at=1.0) for number in range(2)]
    running, over = LogStat("running", 60 * MIB, BUDGET), LogStat("over", 10 * MIB, BUDGET, closed_at=2.0)
    assert _ids(plan([*small, running], 50 * MIB)) == ["running"]
    assert plan([*small, running, over], 65 * MIB) == [Forget("over")]
    many = [LogStat(f"small{number}", 4 * KIB, BUDGET, closed_at=1.0) for number in range(2000)]
    assert len(plan([*many, running], 64 * MIB)) == 1232


def test_at_last_all_budgets_shrink_alike():
    """Running logs that fit their budgets but not the disk are cut to the same part of them."""
    actions = plan([LogStat("a", 80 * MIB, BUDGET), LogStat("b", 40 * MIB, BUDGET // 2)], 80 * MIB)
    assert all(isinstance(action, Shrink) for action in actions)
    parts = {action.process_id: action.target for action in actions if isinstance(action, Shrink)}
    assert abs(parts["a"] - 2 * parts["b"]) <= 2
    assert 0 < parts["a"] < BUDGET


def test_what_the_starter_has_not_received_stays():
    """A log is not forgotten for space while its starter has not told all of it as received."""
    unreceived = [LogStat("a", 820 * MIB, BUDGET, closed_at=1.0, unreceived=800 * MIB)]
    assert not any(isinstance(action, Forget) for action in plan(unreceived, 100 * MIB))


STATS = st.builds(
    LogStat,
    st.uuids().map(str),
    st.integers(0, 4 * GIB),
    st.integers(1, 256 * MIB),
    st.none() | st.floats(0, 1e9),
    st.booleans(),
    st.booleans(),
    st.just(0) | st.integers(0, GIB),
)


@given(st.lists(STATS, max_size=12), st.integers(0, 4 * GIB))
def test_asking_until_nothing_is_freed_ends_and_fits(stats: list[LogStat], limit: int):
    """Whatever the logs: a few rounds later all fit, or what is left may not be dropped."""
    sizes = {stat.process_id: stat for stat in stats}
    for _ in range(20):
        before = sum(stat.disk_bytes for stat in sizes.values())
        actions = plan(list(sizes.values()), limit)
        for action in actions:
            stat = sizes[action.process_id]
            if isinstance(action, Forget):
                assert stat.closed_at is not None
                assert not stat.unreceived
                del sizes[action.process_id]
            else:
                least = stat.settled_at(min(1.0, action.target / stat.budget))
                left = min(stat.disk_bytes, max(action.target, least))
                sizes[action.process_id] = _with_size(stat, left)
        if not actions or sum(stat.disk_bytes for stat in sizes.values()) == before:
            break
    else:
        raise AssertionError("no end")
    floor = sum(stat.settled_at(0.0) for stat in sizes.values())
    assert sum(stat.disk_bytes for stat in sizes.values()) <= max(limit, floor)


def _with_size(stat: LogStat, size: int) -> LogStat:
    return LogStat(
        stat.process_id, size, stat.budget, stat.closed_at, stat.followed, stat.read, stat.unreceived
    )


def test_limit_is_a_tenth_of_the_free_disk():
    """A small disk lowers the limit; the logs themselves do not count as used."""
    assert disk_limit(2 * GIB, 100 * GIB, 0) == 2 * GIB
    assert disk_limit(2 * GIB, 9 * GIB, 1 * GIB) == GIB


def test_the_newest_finished_are_kept_whatever_their_age():
    """The last 256 stay for as long as the server lives; what is beyond goes, the oldest first."""
    finished = [(f"p{number}", float(number)) for number in range(FINISHED_KEPT + 3)]
    assert expired(finished, now=1e9) == [Forget("p0"), Forget("p1"), Forget("p2")]


def test_more_are_kept_for_ten_minutes():
    """Up to 4,096 stay for ten minutes after their end."""
    finished = [(f"p{number}", 1000.0) for number in range(FINISHED_MOST)]
    assert expired(finished, now=1000.0 + FINISHED_AGE) == []
    assert len(expired(finished, now=1000.1 + FINISHED_AGE)) == FINISHED_MOST - FINISHED_KEPT
    assert len(expired([*finished, ("old", 1.0)], now=1000.0)) == 1
