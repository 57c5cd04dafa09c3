"""What is held in memory while the disk takes nothing: the newest output, within bounds; pure."""

import errno

import pytest

from execzmq.process.held import HeldTail, LostEnds, Memory, Retries, is_about_space
from execzmq.process.index import Record, make
from execzmq.settings import KIB, MAX_EVENT, MIB


def output(seq: int, offset: int, length: int) -> Record:
    """Return the record of an output event."""
    return make(seq, "output", "stdout", length, offset, 1.0, offset + length, 0)


def fill(tail: HeldTail, count: int, size: int, first: int = 1) -> None:
    """Add so many events of one size."""
    for number in range(count):
        tail.add(output(first + number, (first + number) * size, size), bytes(size))


def held(tail: HeldTail) -> list[int]:
    """Return the seqs that are there."""
    return [event.record.seq for event in tail]


def test_the_newest_stays_x03() -> None:
    """Beyond its share the oldest output goes; what is no output, and what stands on disk, stays."""
    tail = HeldTail(Memory(each=64 * KIB, total=MIB))
    tail.hold()
    tail.add(make(1, "started", "meta", 2, 0, 1.0, 0, 0), b"{}")
    tail.add(output(2, 0, 10), None)
    fill(tail, 20, 8 * KIB, 3)
    gone = tail.drop(None)
    assert held(tail)[:2] == [1, 2]
    assert [record.seq for record in gone] == list(range(3, held(tail)[2]))
    assert held(tail)[2:] == list(range(held(tail)[2], 23))
    assert 32 * KIB < tail.bytes <= 64 * KIB
    assert tail.memory.used == tail.bytes


def test_what_a_starter_has_not_received_stays_x03() -> None:
    """However much it is; it is said that there is no room for more."""
    tail = HeldTail(Memory(each=64 * KIB, total=MIB))
    tail.hold()
    fill(tail, 20, 8 * KIB)
    assert tail.drop(0) == []
    assert tail.is_full
    assert [record.seq for record in tail.drop(2)] == [1, 2]
    assert tail.is_full
    tail.drop(20)
    assert not tail.is_full


@pytest.mark.parametrize("holders", [1, 3, 16, 100, 5000])
def test_all_together_keep_within_the_bound_x03(holders: int) -> None:
    """Each has the same share, small events count for what they cost, and the bytes pending have room too."""
    memory = Memory(each=MIB, total=16 * MIB)
    tails = [HeldTail(memory) for _ in range(holders)]
    for tail in tails:
        tail.hold()
    for _ in range(2):
        for tail in tails:
            fill(tail, 3, memory.largest_event, 1 + len(held(tail)))
            fill(tail, 3, 1, 100_000 + len(held(tail)))
            tail.drop(None)
    pending = 2 * holders * memory.largest_event
    assert memory.used == sum(tail.bytes for tail in tails)
    assert memory.used + pending <= 17 * MIB
    assert memory.largest_event <= MAX_EVENT
    for tail in tails:
        tail.clear()
    assert (memory.used, memory.holders) == (0, 0)


def test_a_share_is_taken_once_and_given_back() -> None:
    """However often that is asked for."""
    memory = Memory()
    tail = HeldTail(memory)
    for call in (tail.hold, tail.hold):
        call()
    assert memory.holders == 1
    for call in (tail.release, tail.release):
        call()
    assert memory.holders == 0


def test_bytes_are_found_by_their_place() -> None:
    """Until they are gone."""
    tail = HeldTail(Memory())
    fill(tail, 2, 10)
    assert tail.find("stdout", 10) == bytes(10)
    assert tail.find("stderr", 10) is None
    tail.remove(next(iter(tail)))
    assert tail.find("stdout", 10) is None
    assert (tail.at_or_before(1), tail.at_or_before(9)) == (None, output(2, 20, 10))


def test_dropped_events_leave_where_the_streams_ended() -> None:
    """So that the loss after each of them can be told to the byte; of very many the newest."""
    lost = LostEnds()
    assert lost.at_or_before(7) == (0, (0, 0))
    for seq in range(5, 40_000, 5):
        lost.note(output(seq, seq * 10, 10))
    assert lost.at_or_before(39_992) == (39_990, (399_910, 0))
    assert lost.at_or_before(10) == (0, (0, 0))


def test_trouble_that_comes_back_is_tried_less_and_less() -> None:
    """From a quarter of a second to eight; after a minute of calm it begins anew."""
    retries, now, waits = Retries(), 100.0, []
    for _ in range(8):
        waits.append(retries.begin(now))
        now += 1.0
        retries.end(now)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert retries.begin(now + 61.0) == 0.25


def test_a_full_disk_is_told_from_a_broken_one() -> None:
    """A quota that is used up counts as full."""
    assert [is_about_space(OSError(number, "")) for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO)] == [
        True,
        True,
        False,
    ]
