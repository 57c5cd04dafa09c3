"""Which process of the machine belongs to which command, decided on paper."""

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from execzmq.process.census import Census, Entry, Evidence, Identity, Scope

INIT, SERVER, KEEPER, LEADER = 1, 10, 20, 100
PIPE = (5, 77)


def entry(pid: int, ppid: int, session: int, start: int = 50, state: str = "S") -> Entry:
    """Return a process that started after the server."""
    return Entry(pid, ppid, session, start, state)


HOUSE = [entry(INIT, 0, INIT, 0), entry(SERVER, INIT, SERVER, 1), entry(KEEPER, INIT, KEEPER, 2)]


def census(
    others: Iterable[Entry],
    *scopes: Scope,
    look: Callable[[int], Evidence | None] = lambda pid: Evidence(None, frozenset()),
) -> Census:
    """Return a census of the house and `others`."""
    entries = {one.pid: one for one in [*HOUSE, *others]}
    return Census(entries, scopes, protected={INIT, SERVER, KEEPER}, keeper=KEEPER, look=look)


def pids(entries: Iterable[Entry]) -> set[int]:
    """Return the numbers of some entries."""
    return {one.pid for one in entries}


def test_session_and_descendants_are_members_c13():
    """Whoever is in the leader's session, or descends from it into a session of its own."""
    scope = Scope(LEADER, start=50)
    tree = [entry(100, KEEPER, 100), entry(101, 100, 100), entry(102, 101, 102), entry(103, 102, 102)]
    orphan_in_session = entry(104, KEEPER, 100)
    assert pids(census([*tree, orphan_in_session], scope).of(scope).members) == {100, 101, 102, 103, 104}


def test_the_house_and_strangers_are_never_members():
    """Server, keeper, their ancestors and other people's processes stay out."""
    scope = Scope(LEADER, start=50)
    seen = census([entry(100, KEEPER, 100), entry(200, INIT, 200), entry(201, 200, 200)], scope).of(scope)
    assert pids(seen.members) == {100}
    assert not seen.strays


def test_who_was_seen_as_a_member_stays_one():
    """An orphan with a session of its own is known from the time when its parent lived."""
    scope = Scope(LEADER, start=50, known=frozenset({Identity(102, 50)}))
    others = [entry(102, KEEPER, 102), entry(103, 102, 103)]
    assert pids(census(others, scope).of(scope).members) == {102, 103}


def test_a_number_that_came_back_is_not_the_member_that_had_it():
    """A known member's number with another start time is somebody else."""
    scope = Scope(LEADER, start=50, known=frozenset({Identity(102, 50)}))
    assert not census([entry(102, INIT, 102, start=60)], scope).of(scope).members


def test_orphans_are_known_by_their_mark_c13():
    """A daemon that closed everything still carries the mark, whoever has adopted it."""
    scope = Scope(LEADER, start=50, mark=b"p.1")
    for parent in (KEEPER, INIT, SERVER, 9999):
        daemon = entry(300, parent, 300)
        seen = census([daemon], scope, look=lambda pid: Evidence(b"p.1", frozenset()))
        assert pids(seen.of(scope).members) == {300}


def test_orphans_are_known_by_the_pipe_they_hold():
    """Without a mark the held stream tells."""
    scope = Scope(LEADER, start=50, streams=frozenset({PIPE}))
    seen = census([entry(300, INIT, 300)], scope, look=lambda pid: Evidence(None, frozenset({PIPE, (1, 1)})))
    assert pids(seen.of(scope).members) == {300}


def test_whoever_is_older_than_the_command_is_not_of_it():
    """A pipe or mark does not make a member of what ran before."""
    scope = Scope(LEADER, start=50, mark=b"p.1", streams=frozenset({PIPE}))
    look = Evidence(b"p.1", frozenset({PIPE}))
    assert not census([entry(300, INIT, 300, start=49)], scope, look=lambda pid: look).of(scope).members


def test_the_mark_outweighs_a_held_pipe():
    """A process of one command that holds another's pipe belongs to its own."""
    ours, theirs = Scope(LEADER, streams=frozenset({PIPE}), start=50), Scope(101, mark=b"q.1", start=50)
    seen = census(
        [entry(300, KEEPER, 300)], ours, theirs, look=lambda pid: Evidence(b"q.1", frozenset({PIPE}))
    )
    assert not seen.of(ours).members
    assert pids(seen.of(theirs).members) == {300}


def test_what_hangs_below_the_keeper_without_evidence_is_a_stray():
    """It is listed with its descendants, and it is nobody's member."""
    scope = Scope(LEADER, start=50)
    seen = census([entry(300, KEEPER, 300), entry(301, 300, 300), entry(302, KEEPER, 302, start=40)], scope)
    assert pids(seen.of(scope).strays) == {300, 301}
    assert not seen.of(scope).members


def test_what_may_not_be_looked_at_is_a_stray():
    """A process of another user below the keeper is listed."""
    scope = Scope(LEADER, start=50, mark=b"p.1")
    assert pids(census([entry(300, KEEPER, 300)], scope, look=lambda pid: None).of(scope).strays) == {300}


def test_a_command_that_is_just_being_started_is_no_stray():
    """Its mark is of no command that is known yet, but it is a mark."""
    scope = Scope(LEADER, start=50, mark=b"p.1")
    look = Evidence(b"new.9", frozenset())
    assert not census([entry(300, KEEPER, 300)], scope, look=lambda pid: look).of(scope).strays


def test_members_of_other_commands_are_neither_members_nor_strays():
    """Two commands side by side do not see each other."""
    first, second = Scope(100, start=50), Scope(200, start=50)
    others = [entry(100, KEEPER, 100), entry(200, KEEPER, 200), entry(201, 200, 201)]
    seen = census(others, first, second)
    assert pids(seen.of(first).members) == {100}
    assert not seen.of(first).strays
    assert pids(seen.of(second).members) == {200, 201}


def test_a_session_number_that_came_back_is_not_the_command():
    """If the leader's number is another process, its session had nobody left: nothing is a member."""
    scope = Scope(LEADER, start=50)
    assert (
        not census([entry(100, INIT, 100, start=90), entry(101, 100, 100, start=91)], scope).of(scope).members
    )


def test_a_session_once_empty_counts_no_more():
    """After a look that found nobody in it, the session tells nothing."""
    scope = Scope(LEADER, start=50)
    assert census([], scope).session_is_over(scope)
    assert not census([entry(101, KEEPER, 100)], scope).session_is_over(scope)
    scope.session_over = True
    assert not census([entry(101, INIT, 100)], scope).of(scope).members


def test_a_parent_younger_than_its_child_is_not_its_parent():
    """The number of the dead parent has come back as a member of the command."""
    scope = Scope(LEADER, start=50)
    others = [entry(100, KEEPER, 100), entry(101, 100, 100, start=80), entry(300, 101, 300, start=60)]
    assert pids(census(others, scope).of(scope).members) == {100, 101}


ENTRIES = st.builds(
    Entry,
    st.integers(1, 30),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 3),
    st.just("S"),
)
LOOKS = st.dictionaries(
    st.integers(1, 30),
    st.builds(
        Evidence, st.sampled_from([None, b"p.1", b"q.1"]), st.sampled_from([frozenset(), frozenset({PIPE})])
    ),
)


@given(st.lists(ENTRIES, unique_by=lambda one: one.pid), LOOKS)
def test_any_machine_is_counted(others: list[Entry], looks: dict[int, Evidence]):
    """However torn the look at the machine is: an answer, no member of the house, none of two commands."""
    first = Scope(15, start=1, mark=b"p.1", streams=frozenset({PIPE}), known=frozenset({Identity(16, 2)}))
    second = Scope(17, mark=b"q.1")
    seen = census(
        [one for one in others if one.pid not in (INIT, SERVER, KEEPER)], first, second, look=looks.get
    )
    groups = [pids(seen.of(scope).members) for scope in (first, second)] + [pids(seen.of(first).strays)]
    assert not groups[0] & groups[1]
    assert not groups[2] & (groups[0] | groups[1])
    assert not {INIT, SERVER, KEEPER} & (groups[0] | groups[1] | groups[2])
