"""A cursor gives every event once and in order whatever the broadcasts do, and a gap where bytes are gone."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from execzmq.errors import InstanceChanged, RemoteProtocolError
from execzmq.protocol.cursor import Cursor, Step
from execzmq.settings import HELD_BYTES
from execzmq.types.events import (
    Closed,
    Event,
    Exited,
    Failed,
    Gap,
    Output,
    Started,
    first_seq_of,
    last_seq_of,
)
from execzmq.types.results import ExitResult, ReadResponse

RESULT = ExitResult(exit_code=0)
I = 7  # noqa: E741  # the instance of every log here
NOTHING = Step([])


def output(seq: int, data: bytes = b"x") -> Output:
    """Return an output event; its offset plays no part here."""
    return Output(seq, "stdout", 0, data)


def page(
    *events: Event, last_seq: int | None = None, closed: bool = False, instance: int = I
) -> ReadResponse:
    """Return a page with these events."""
    end = last_seq_of(events[-1]) if events else 0
    last = end if last_seq is None else last_seq
    return ReadResponse("p", instance, events, end, 1, last, closed=closed)


def live(*seqs: int, seq: int = 0) -> Cursor:
    """Return a cursor at `seq` that has taken these live events."""
    cursor = Cursor(seq, I)
    for number in seqs:
        cursor.accept(output(number), I)
    return cursor


def test_live_events_in_order_are_delivered_at_once() -> None:
    """Nothing is read while broadcasts come one after the other."""
    cursor = Cursor(0, I)
    for seq in (1, 2, 3):
        assert cursor.accept(output(seq), I) == Step([output(seq)])
    assert (cursor.seq, cursor.is_paging) == (3, False)


def test_duplicates_are_dropped() -> None:
    """What was delivered is not delivered again, be it live or from a page."""
    cursor = live(1, 2)
    assert cursor.accept(output(1), I) == NOTHING
    assert cursor.ask() == Step([], 2)
    cursor.accept(output(3), I)
    assert cursor.on_page(page(output(3), output(4))) == Step([output(4)])


def test_hole_is_read_once_and_live_events_wait_c60() -> None:
    """Events behind a hole are held; one page is asked for, not one per event."""
    cursor = live(1)
    assert cursor.accept(output(5), I) == Step([], 1)
    assert cursor.accept(output(6), I) == NOTHING
    assert cursor.accept(output(9), I) == NOTHING
    step = cursor.on_page(page(output(2), output(3), output(4), last_seq=9))
    assert step == Step([output(2), output(3), output(4), output(5), output(6)], 6)
    assert cursor.on_page(page(output(7), output(8), output(9))) == Step([output(7), output(8), output(9)])
    assert cursor.accept(output(10), I) == Step([output(10)])


def test_next_event_is_delivered_although_a_page_is_on_its_way() -> None:
    """A long poll that waits does not hold up what comes live."""
    cursor = Cursor(0, I)
    assert cursor.ask() == Step([], 0)
    assert cursor.accept(output(1), I) == Step([output(1)])
    assert cursor.on_page(page(output(1))) == NOTHING


def test_held_events_are_bounded_c60() -> None:
    """More than 4 MiB behind a hole are not held but read again."""
    cursor, data = Cursor(0, I), bytes(1 << 20)
    for seq in range(2, 9):
        cursor.accept(output(seq, data), I)
    assert sum(len(event.data) for event in cursor._held.values() if isinstance(event, Output)) <= HELD_BYTES
    step = cursor.on_page(page(output(1), last_seq=8))
    assert [last_seq_of(event) for event in step.events] == [1, 2, 3, 4]
    assert step.read_after == 4


def test_tiny_events_are_bounded_too_c60() -> None:
    """A flood of events without data cannot be held without end."""
    cursor = Cursor(0, I)
    for seq in range(2, 100_000):
        cursor.accept(Started(seq, 1), I)
    assert len(cursor._held) <= HELD_BYTES // 256


@pytest.mark.parametrize("seq", [0, 3])
def test_behind_and_tail_of_known_events_are_no_news(seq: int) -> None:
    """A tail that tells what is already here asks for nothing."""
    assert live(1, 2, 3).behind(seq, I) == NOTHING


def test_behind_asks_until_the_announced_end() -> None:
    """Pages follow each other until what was announced is there."""
    cursor = Cursor(0, I)
    assert cursor.behind(5, I) == Step([], 0)
    assert cursor.behind(6, I) == NOTHING
    assert cursor.on_page(page(output(1), output(2), last_seq=5)).read_after == 2
    assert cursor.on_page(page(output(3), output(4), output(5), output(6))) == Step(
        [output(3), output(4), output(5), output(6)]
    )


def test_lost_end_shows_by_the_tail_c49() -> None:
    """Where `exited` and `closed` were dropped, the tail leads to them."""
    cursor = live(1)
    assert cursor.behind(3, I) == Step([], 1)
    ends = (Exited(2, RESULT), Closed(3, RESULT))
    assert cursor.on_page(page(*ends, closed=True)) == Step(list(ends))
    assert cursor.is_finished


def test_exit_by_page_and_live_is_delivered_once_c60() -> None:
    """An end that arrives both ways is one end, and nothing follows it."""
    cursor = live(1)
    cursor.accept(Closed(3, RESULT), I)
    step = cursor.on_page(page(Exited(2, RESULT), Closed(3, RESULT), closed=True))
    assert step == Step([Exited(2, RESULT), Closed(3, RESULT)])
    for late in (
        cursor.accept(Closed(3, RESULT), I),
        cursor.accept(output(4), I),
        cursor.behind(9, I),
        cursor.ask(),
    ):
        assert late == NOTHING


def test_failed_finishes() -> None:
    """A process that could not be started has one event."""
    cursor = Cursor(0, I)
    cursor.accept(Failed(1, {"ename": "CommandNotFound"}), I)
    assert cursor.is_finished


@pytest.mark.parametrize("after_seq", [3, 5])
def test_attached_after_the_end_finishes_by_an_empty_page(after_seq: int) -> None:
    """Who has seen everything of a closed process is told so by an empty page."""
    cursor = Cursor(after_seq, I)
    cursor.ask()
    assert cursor.on_page(page(last_seq=3, closed=True)) == NOTHING
    assert cursor.is_finished


def test_failed_process_finishes_by_an_empty_page() -> None:
    """The same holds for a process that could not be started."""
    cursor = Cursor(1, I)
    cursor.ask()
    cursor.on_page(ReadResponse("p", I, (), 1, 1, 1, failure={"ename": "CommandNotFound"}))
    assert cursor.is_finished


def test_page_older_than_the_news_is_followed_by_another() -> None:
    """A page that was made before an event does not end the search for it."""
    cursor = live(1)
    cursor.ask()
    cursor.accept(output(3), I)
    assert cursor.on_page(page(last_seq=1)) == Step([], 1)
    assert cursor.on_page(page(output(2), output(3))) == Step([output(2), output(3)])


def test_log_that_lacks_what_was_announced_is_a_fault() -> None:
    """A read that began after an event was announced must know it: loss is never silent."""
    cursor = Cursor(0, I)
    cursor.behind(5, I)
    with pytest.raises(RemoteProtocolError, match="announced"):
        cursor.on_page(page(output(1), last_seq=4))


@pytest.mark.parametrize("events", [(output(2),), (output(1), output(3)), (Gap(1, 2, 5), output(4))])
def test_page_with_a_hole_is_a_fault(events: tuple[Event, ...]) -> None:
    """A page names what is gone by a gap; a page with a hole is refused."""
    cursor = Cursor(0, I)
    cursor.ask()
    with pytest.raises(RemoteProtocolError, match="no gap"):
        cursor.on_page(page(*events))


def test_gap_is_delivered_as_it_is() -> None:
    """Bytes that are gone are told with their number."""
    cursor = Cursor(0, I)
    cursor.behind(9, I)
    events: list[Event] = [Started(1, 4), Gap(2, 8, 700), output(9)]
    assert cursor.on_page(page(*events)) == Step(events)
    assert cursor.seq == 9


def test_gap_that_begins_with_live_events_tells_only_the_rest() -> None:
    """What came live before the log dropped it is not counted as lost."""
    cursor = live(1)
    cursor.ask()
    for seq, data in ((2, b"aa"), (3, b"bbb"), (4, b"cccc")):
        cursor.accept(output(seq, data), I)
    step = cursor.on_page(page(output(2, b"aa"), Gap(3, 5, 3 + 4 + 5), output(6)))
    assert step == Step([Gap(5, 5, 5), output(6)])


def test_gap_that_came_live_as_a_whole_is_not_told() -> None:
    """Of several gaps only what never came is told, to the byte."""
    cursor = live(1)
    cursor.ask()
    for seq in range(2, 7):
        cursor.accept(output(seq, bytes(seq)), I)
    step = cursor.on_page(page(Gap(2, 2, 2), output(3, bytes(3)), Gap(4, 8, 4 + 5 + 6 + 7 + 8), output(9)))
    assert step == Step([Gap(7, 8, 7 + 8), output(9)])


def test_held_events_that_a_page_brings_are_let_go() -> None:
    """What was held in vain takes no room any more."""
    cursor = live(5, 6, 9)
    cursor.on_page(page(*(output(seq) for seq in range(1, 7)), last_seq=9))
    assert list(cursor._held) == [9]
    assert cursor._held_bytes == 257


def test_other_instance_is_asked_after_and_then_told() -> None:
    """A message of another life is no continuation; the answer of the server decides (C59)."""
    cursor = live(1, 2)
    assert cursor.accept(output(3), I + 1) == Step([], 2)
    assert cursor.behind(9, I + 1) == NOTHING
    with pytest.raises(InstanceChanged) as caught:
        cursor.on_page(page(output(1), instance=I + 1))
    assert caught.value.instance == I + 1


def test_page_that_nobody_waits_for_is_ignored() -> None:
    """A page without a read changes nothing."""
    assert Cursor(0, I).on_page(page(output(1))) == NOTHING


class Log:
    """A log that loses its middle while it is read, and a network that may do anything to broadcasts."""

    def __init__(self, sizes: list[int], chance: random.Random) -> None:
        self.chance = chance
        outputs: list[Event] = [output(seq, bytes(size)) for seq, size in enumerate(sizes, 2)]
        end = len(outputs) + 2
        self.events = [Started(1, 4), *outputs, Exited(end, RESULT), Closed(end + 1, RESULT)]
        self.written = 0
        self.dropped: set[int] = set()

    def write(self) -> Event:
        self.written += 1
        return self.events[self.written - 1]

    def drop(self) -> None:
        """Lose an output event that is followed by another, as the middle of a log is."""
        candidates = [e.seq for e in self.events[: self.written] if isinstance(e, Output)][:-1]
        if candidates:
            self.dropped.add(self.chance.choice(candidates))

    def page(self, after_seq: int, most: int) -> ReadResponse:
        chunks: list[Event] = []
        for event in self.events[after_seq : self.written]:
            before = chunks[-1] if chunks else None
            assert not isinstance(event, Gap)
            if event.seq not in self.dropped:
                if len(chunks) >= most:
                    break
                chunks.append(event)
            elif isinstance(event, Output) and isinstance(before, Gap):
                chunks[-1] = Gap(before.from_seq, event.seq, before.bytes + len(event.data))
            elif isinstance(event, Output):
                chunks.append(Gap(event.seq, event.seq, len(event.data)))
        is_closed = self.written == len(self.events)
        next_seq = last_seq_of(chunks[-1]) if chunks else after_seq
        return ReadResponse("p", I, tuple(chunks), next_seq, 1, self.written, closed=is_closed)


class Reader:
    """Drive a cursor against a log; requests and pages take their time, broadcasts get lost."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.cursor = Cursor(0, I)
        self.delivered: list[Event] = []
        self.network: list[Event] = []
        self.asked: int | None = None
        self.requested = 0
        self.answer: ReadResponse | None = None

    def take(self, step: Step) -> None:
        self.delivered += step.events
        if step.read_after is not None:
            assert self.asked is None
            assert self.answer is None
            self.asked = self.requested = step.read_after

    def hear(self) -> None:
        """Deliver some broadcast that is on its way, at times twice, at times not at all."""
        if not self.network:
            return
        event = self.network[self.log.chance.randrange(min(4, len(self.network)))]
        fate = self.log.chance.random()
        if fate < 0.8:
            self.network.remove(event)
        if fate < 0.2:
            return
        if fate < 0.3:
            self.take(self.cursor.behind(last_seq_of(event), I))
        else:
            self.take(self.cursor.accept(event, I))

    def serve(self) -> None:
        """Let the server make the page that was asked for."""
        if self.asked is not None:
            self.answer, self.asked = self.log.page(self.asked, self.log.chance.randrange(1, 6)), None

    def receive(self) -> None:
        """Let the page arrive, or let it be lost and made anew for the repeated request."""
        if self.answer is None:
            return
        page, self.answer = self.answer, None
        if self.log.chance.random() < 0.1:
            self.asked = self.requested
        else:
            self.take(self.cursor.on_page(page))

    def finish(self) -> None:
        """Be told the end by a tail, and read until it is there."""
        self.take(self.cursor.behind(self.log.written, I))
        for _ in range(10 * len(self.log.events) + 100):
            if self.cursor.is_finished:
                return
            self.serve()
            self.receive()
        pytest.fail("the cursor does not come to the end")


def check(delivered: Iterable[Event], log: Log) -> None:
    """Every event is there once and in order, or within a gap that counts its bytes."""
    expected = 1
    for event in delivered:
        assert first_seq_of(event) == expected
        expected = last_seq_of(event) + 1
        if isinstance(event, Gap):
            lost = log.events[event.from_seq - 1 : event.to_seq]
            assert event.bytes == sum(len(gone.data) for gone in lost if isinstance(gone, Output))
        else:
            assert event is log.events[event.seq - 1]
    assert expected == len(log.events) + 1


@hypothesis_settings(max_examples=1000)
@given(
    st.lists(st.integers(1, 9), max_size=30), st.lists(st.integers(0, 9), max_size=200), st.integers(0, 2**32)
)
def test_any_loss_and_order_gives_the_exact_sequence(sizes: list[int], turns: list[int], seed: int) -> None:
    """Drop, double and reorder broadcasts, let the log lose its middle: the caller gets each event once."""
    log = Log(sizes, random.Random(seed))
    reader = Reader(log)
    for turn in turns:
        if turn < 4 and log.written < len(log.events):
            reader.network.append(log.write())
        elif turn < 6:
            reader.hear()
        elif turn == 6:
            log.drop()
        elif turn == 7:
            reader.receive()
        else:
            reader.serve()
    while log.written < len(log.events):
        log.write()
    reader.finish()
    check(reader.delivered, log)
