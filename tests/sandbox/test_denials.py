"""Refusals are told at once, then together, and never without bound."""

from execzmq.sandbox.denials import MOST, OTHERS, Denial, Denials


def test_first_is_told_at_once_and_the_rest_with_their_count() -> None:
    """Each host and port twice in an interval: at its beginning and, where it came again, at its end."""
    denials = Denials()
    assert denials.note("a.example", 443, "not listed") == Denial("a.example", 443, "not listed")
    assert denials.note("a.example", 80, "not listed") == Denial("a.example", 80, "not listed")
    assert denials.note("a.example", 443, "not listed") is None
    assert denials.note("a.example", 443, "private") is None
    assert denials.due() == [Denial("a.example", 443, "private", 2)]
    assert denials.due() == []
    assert denials.note("a.example", 443, "not listed") is not None


def test_many_hosts_are_told_as_one() -> None:
    """Ten thousand names are a few denials, and all are counted."""
    denials = Denials()
    at_once = [denials.note(f"{n}.example", 443, "not listed") for n in range(10_000)]
    told = [denial for denial in at_once if denial] + denials.due()
    assert len(told) == MOST + 2
    assert sum(denial.count for denial in told) == 10_000
    assert [denial.host for denial in told[-2:]] == [OTHERS, OTHERS]
