"""Repeated interrupts climb a ladder."""

from execzmq.client.interrupts import InterruptLadder


def test_ladder() -> None:
    """INT, then TERM, then KILL, and KILL again; each says what it did and what the next will do."""
    ladder = InterruptLadder()
    steps = [ladder.next() for _ in range(4)]
    assert [step.signal for step in steps] == ["INT", "TERM", "KILL", "KILL"]
    assert "SIGINT" in steps[0].words
    assert "SIGTERM" in steps[0].words
    assert "kill" in steps[1].words
