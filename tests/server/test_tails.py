"""When it is told again where a log ends."""

from typing import Any, cast

from execzmq.process.managed import ManagedProcess
from execzmq.server.tails import Tail, Tails


class Rig:
    """Tails of processes that are only names, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[tuple[str, float]] = []
        self.frames: list[list[Any]] = []
        self.tails = Tails(self._repeat, lambda: self.now + 1e-6)  # so that no delay is missed by rounding

    def _repeat(self, tails: list[Tail]) -> None:
        for tail in tails:
            tail.frames += [b"topic"]
            self.frames.append(tail.frames)
            self.told.append((cast(Any, tail.process).process_id, round(self.now, 3)))

    def process(self, name: str) -> ManagedProcess:
        """Return a process of that name."""

        class Named:
            process_id = name

        return cast(ManagedProcess, Named())

    def until(self, end: float) -> None:
        """Let time go on to `end`, and the ticks with it."""
        while self.now < end:
            self.now = round(self.now + 0.1, 3)
            self.tails._tick()


async def test_each_delay_counts_from_the_last_event() -> None:
    """Also where the event comes while a later repetition was being waited for."""
    rig = Rig()
    process = rig.process("p")
    rig.tails.expect(process, 0.0)
    rig.until(1.5)
    rig.tails.expect(process, 1.5)
    rig.until(8.0)
    assert rig.told == [("p", t) for t in (0.2, 1.0, 1.7, 2.5, 6.5)]
    rig.tails.close()


async def test_who_goes_on_writing_is_not_told_of() -> None:
    """And then as soon as any other."""
    rig = Rig()
    process, other = rig.process("p"), rig.process("q")
    rig.tails.expect(other, 0.0)
    for number in range(20):
        rig.tails.expect(process, number / 10)
        rig.until((number + 1) / 10)
    rig.until(2.5)
    assert rig.told == [("q", 0.2), ("q", 1.0), ("p", 2.1)]
    rig.tails.close()


async def test_an_id_that_is_given_anew_has_its_own_tail() -> None:
    """Nothing is told of the process that had it."""
    rig = Rig()
    first, second = rig.process("p"), rig.process("p")
    rig.tails.expect(first, 0.0)
    rig.tails.expect(second, 0.1)
    rig.until(6.0)
    assert [when for _, when in rig.told] == [0.3, 1.1, 5.1]
    rig.tails.close()


async def test_what_was_handed_over_stays_as_it_is() -> None:
    """A message may wait to be sent when the next event comes."""
    rig = Rig()
    process = rig.process("p")
    rig.tails.expect(process, 0.0)
    rig.until(0.2)
    rig.tails.expect(process, 0.2)
    assert rig.frames == [[b"topic"]]
    rig.tails.close()


async def test_all_are_repeated_before_the_end() -> None:
    """Whoever has missed the last broadcasts learns of it in time."""
    rig = Rig()
    for name in ("p", "q"):
        rig.tails.expect(rig.process(name), 0.0)
    rig.tails.repeat_all()
    assert rig.told == [("p", 0.0), ("q", 0.0)]
    rig.tails.close()
