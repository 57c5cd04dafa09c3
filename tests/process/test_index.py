"""Records keep what they are given, damage shows, and what may be dropped is the middle."""

from hypothesis import given
from hypothesis import strategies as st

from execzmq.process.index import (
    KINDS,
    RECORD_SIZE,
    STREAMS,
    Record,
    Segment,
    cost_at,
    droppable,
    first_where,
    pack,
    unpack,
)

U64 = st.integers(0, 2**64 - 1)
RECORDS = st.builds(
    Record,
    U64,
    st.sampled_from(KINDS),
    st.sampled_from(STREAMS),
    st.integers(0, 2**32 - 1),
    U64,
    st.floats(allow_nan=False),
    U64,
    U64,
)


@given(RECORDS, st.binary(max_size=80))
def test_record_survives_packing(record: Record, before: bytes):
    """What was packed is unpacked, wherever in a block it stands."""
    packed = pack(record)
    assert len(packed) == RECORD_SIZE == 52
    assert unpack(before + packed, len(before)) == record


@given(RECORDS, st.integers(0, RECORD_SIZE - 1), st.integers(1, 255))
def test_damage_of_any_byte_shows(record: Record, position: int, mask: int):
    """One byte that differs makes the record unreadable."""
    packed = bytearray(pack(record))
    packed[position] ^= mask
    assert unpack(bytes(packed)) is None


@given(RECORDS, st.integers(0, RECORD_SIZE - 1))
def test_torn_record_shows(record: Record, length: int):
    """A record of which only the first bytes were written is no record, with zeros after them neither."""
    torn = pack(record)[:length]
    assert unpack(torn) is None
    padded = torn + bytes(RECORD_SIZE - length)
    assert unpack(padded) in (None, record)


def test_zeros_are_no_record():
    """A block of zeros, as a lost write leaves it, has no record."""
    assert unpack(bytes(RECORD_SIZE)) is None


def test_begins_are_the_ends_before():
    """An output event moves the end of its own stream only; any other event moves none."""
    output = Record(3, "output", "stderr", 5, 10, 0.0, 7, 15)
    assert (output.begins, output.ends) == ((7, 10), (7, 15))
    notice = Record(4, "notice", "meta", 5, 10, 0.0, 7, 15)
    assert notice.begins == notice.ends == (7, 15)


def _record(seq: int) -> Record:
    return Record(seq, "output", "stdout", 1, seq - 1, 0.0, seq, 0)


@given(st.sets(st.integers(1, 500), min_size=1), st.integers(0, 501), st.data())
def test_search_finds_the_first(seqs: set[int], wanted: int, data: st.DataObject):
    """Bisection finds the first record that is wanted, also beside records that cannot be read."""
    stored: list[Record | None] = [_record(seq) for seq in sorted(seqs)]
    for position in data.draw(st.sets(st.integers(0, len(stored) - 1), max_size=3)):
        stored[position] = None
    found = first_where(lambda at: stored[at], len(stored), lambda record: record.seq >= wanted)
    readable = [at for at, record in enumerate(stored) if record and record.seq >= wanted]
    below = [at for at, record in enumerate(stored) if record and record.seq < wanted]
    assert found <= min(readable, default=len(stored))
    assert found > max(below, default=-1)


def test_cost_counts_output_and_index():
    """What the events up to one cost is their bytes and their records."""
    assert cost_at(Record(10, "output", "stderr", 5, 10, 0.0, 100, 15)) == 115 + 10 * RECORD_SIZE


TABLE = [Segment(start, 100) for start in range(0, 1000, 100)]


def test_only_the_middle_is_dropped():
    """Files that have a byte of the head or of the newest part stay."""
    assert [s.start for s in droppable(TABLE, 150, 750, 0)] == [200, 300, 400, 500, 600]
    assert droppable(TABLE, 150, 299, 0) == []


def test_a_stream_keeps_its_share():
    """However little of a stream lies in the head and the tail, its share stays, half at each end."""
    assert [s.start for s in droppable(TABLE, 0, 1000, 500)] == [300, 400, 500, 600]
    assert droppable(TABLE, 0, 1000, 5000) == []


def test_the_file_being_written_stays():
    """The last file is never dropped."""
    assert droppable(TABLE, 0, 1000, 0) == TABLE[:-1]
    assert droppable([Segment(0, 100)], 0, 1000, 0) == []


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), max_size=30),
    st.integers(0, 900),
    st.integers(0, 900),
    st.integers(0, 900),
)
def test_what_must_stay_stays(sizes: list[tuple[int, int]], low: int, high: int, share: int):
    """For any table: head, tail and share are never among what may go."""
    table: list[Segment] = []
    for size, records in sizes:
        table.append(Segment(table[-1].end if table else 0, size, records))
    gone = droppable(table, low, high, share)
    assert all(low <= segment.start and segment.end <= high for segment in gone)
    if gone:
        first, last = table.index(gone[0]), table.index(gone[-1])
        assert gone == table[first : last + 1]
        assert sum(segment.cost for segment in table[:first]) >= share // 2
        assert sum(segment.cost for segment in table[last + 1 :]) >= share // 2
