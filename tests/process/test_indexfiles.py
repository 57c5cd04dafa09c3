"""The index on disk: found by seq and by place, rewritten without what is gone, whole after a crash."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.process.index import RECORD_SIZE, Record, pack, unpack
from execzmq.process.indexfiles import IndexFiles
from execzmq.types.events import Stream

PER_FILE = 10


def _record(seq: int) -> Record:
    stream: Stream = "stdout" if seq % 2 else "stderr"
    ends = 10 * ((seq + 1) // 2), 10 * (seq // 2)
    return Record(seq, "output", stream, 10, ends[seq % 2 == 0] - 10, 0.0, *ends)


@pytest.fixture
def index(short_tmp: Path) -> Iterator[IndexFiles]:
    """An index of 45 records, of stdout and stderr in turn, in files of ten."""
    index = IndexFiles(str(short_tmp), PER_FILE)
    for seq in range(1, 46):
        index.append(pack(_record(seq)), seq)
    yield index
    index.close()


def _again(folder: Path) -> tuple[IndexFiles, int]:
    index = IndexFiles(str(folder), PER_FILE)
    numbers = [name.partition(".")[2] for name in os.listdir(folder)]
    return index, index.load(int(number) for number in numbers if number.isdecimal())


def _seqs(index: IndexFiles, seq: int = 0) -> list[int]:
    found = []
    for block in index.blocks(seq):
        for at in range(0, len(block), RECORD_SIZE):
            record = unpack(block, at)
            assert record is not None
            found.append(record.seq)
    return found


def _drop_stderr(index: IndexFiles) -> None:
    """Take away the events of stderr from 11 to 40."""
    index.mark_stale(11, 40)
    while index.compact(lambda stream, offset, _: stream == "stdout" or not 50 <= offset < 200, 2):
        pass


@pytest.mark.parametrize("seq", [0, 1, 10, 11, 30, 45, 46])
def test_records_are_found_by_seq(index: IndexFiles, seq: int):
    """Reading begins with the first record at or after a seq, in whatever file it is."""
    assert _seqs(index, seq) == list(range(max(1, seq), 46))
    found = index.at_or_before(seq)
    assert (found.seq if found else 0) == min(seq, 45)


@pytest.mark.parametrize("end", [0, 10, 11, 150, 220, 230, 231])
def test_records_are_found_by_place(index: IndexFiles, end: int):
    """The event in which a stream reaches an offset is found by bisection."""
    found = index.first_where(lambda record: record.stdout_end >= end)
    reaching = (seq for seq in range(1, 46) if 10 * ((seq + 1) // 2) >= end)
    assert (found.seq if found else None) == next(reaching, None)


def test_events_of_a_stream_are_counted(index: IndexFiles):
    """How many events of one stream lie between two seqs is counted across files."""
    assert index.count("stdout", 1, 45) == 23
    assert index.count("stderr", 9, 31) == 11
    assert index.count("stderr", 45, 45) == 0


def test_compaction_keeps_what_is_there(index: IndexFiles, short_tmp: Path):
    """Records of dropped events go, all others are found as before, and small files are joined."""
    before = index.bytes_on_disk
    _drop_stderr(index)
    expected = [seq for seq in range(1, 46) if seq % 2 or seq <= 10 or seq > 40]
    assert _seqs(index) == expected
    assert _seqs(index, 20) == [seq for seq in expected if seq >= 20]
    found = index.at_or_before(20)
    assert found is not None
    assert found.seq == 19
    assert before - index.bytes_on_disk == (45 - len(expected)) * RECORD_SIZE
    assert index.bytes_on_disk == sum(entry.stat().st_size for entry in os.scandir(short_tmp))
    again, bad = _again(short_tmp)
    assert (_seqs(again), bad) == (expected, 0)


def test_files_that_overlap_after_a_crash_are_one_truth(index: IndexFiles, short_tmp: Path):
    """Old files that were to go when the server died are recognised, whichever of them is left."""
    old = {entry.name: Path(entry.path).read_bytes() for entry in os.scandir(short_tmp)}
    _drop_stderr(index)
    index.close()
    kept = _seqs(index)
    for name, data in old.items():
        path = short_tmp / name
        if path.exists():
            continue
        path.write_bytes(data)
        again, bad = _again(short_tmp)
        seqs = _seqs(again)
        assert bad == 0
        assert seqs == sorted(set(seqs))
        assert set(kept) <= set(seqs)
        path.unlink(missing_ok=True)


def test_a_torn_end_is_cut(index: IndexFiles, short_tmp: Path):
    """A part of a record at the end is cut off, and the next record takes its place."""
    index.close()
    os.truncate(short_tmp / "idx.41", 5 * RECORD_SIZE - 1)
    again, bad = _again(short_tmp)
    assert bad == 1
    again.append(pack(_record(45)), 45)
    again.close()
    assert _seqs(again) == list(range(1, 46))


def test_damage_of_an_older_file_is_more_than_a_kill(index: IndexFiles, short_tmp: Path):
    """A kill tears the newest file only; anything else counts as damage."""
    index.close()
    os.truncate(short_tmp / "idx.11", 10 * RECORD_SIZE - 1)
    assert _again(short_tmp)[1] > 1
