"""The files in which the input of a process waits."""

from pathlib import Path

import pytest

from execzmq.process import stdin_files
from execzmq.process.stdin_files import RECORD_SIZE, InputIndex, InputRecord, InputSegments, unpack_records


def record(number: int, end: bool = False) -> InputRecord:
    """Return a record of session `number`."""
    return InputRecord(bytes([number]) * 16, number, number * 2, end)


def test_records_are_read_up_to_the_first_damaged_one():
    """A record is whole or not there."""
    records = [record(number, number % 2 == 1) for number in range(5)]
    data = b"".join(one.pack() for one in records)
    assert unpack_records(data) == records
    assert unpack_records(data[:-1]) == records[:-1]
    spoilt = bytearray(data)
    spoilt[2 * RECORD_SIZE + 3] ^= 1
    assert unpack_records(bytes(spoilt)) == records[:2]


def test_the_index_is_read_back_and_cut_behind_the_last_good_record(tmp_path: Path):
    """What was torn by a kill is overwritten by the next record."""
    index = InputIndex(tmp_path / "new" / "folder")
    assert index.read() == []
    for number in range(3):
        index.append(record(number))
    index.close()
    path = tmp_path / "new" / "folder" / "in.idx"
    path.write_bytes(path.read_bytes() + b"torn")
    index = InputIndex(path.parent)
    assert index.read() == [record(0), record(1), record(2)]
    index.append(record(3))
    index.close()
    assert unpack_records(path.read_bytes()) == [record(number) for number in range(4)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_index_is_written_anew_when_it_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It does not grow for ever; what does not shrink may grow to twice its size."""
    monkeypatch.setattr(stdin_files, "INDEX_MOST", 4 * RECORD_SIZE)
    index, too_long = InputIndex(tmp_path), []
    for number in range(4):
        index.append(record(number))
        too_long.append(index.is_too_long)
    index.rewrite([record(7), record(8), record(9)])
    for number in range(3):
        index.append(record(number))
        too_long.append(index.is_too_long)
    assert too_long == [False, False, False, True, False, False, True]
    index.close()
    index.close()
    again = InputIndex(tmp_path)
    assert [one.offset for one in again.read()] == [7, 8, 9, 0, 1, 2]
    again.close()


def test_bytes_beyond_a_cut_are_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Segments that begin beyond the cut go."""
    monkeypatch.setattr(stdin_files, "SEGMENT", 4)
    segments = InputSegments(tmp_path)
    assert segments.write(0, memoryview(b"0123456789")) == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.0", "in.4", "in.8"]
    segments.cut(5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.0", "in.4"]
    segments.write(5, memoryview(b"abc"))
    assert (tmp_path / "in.4").read_bytes() == b"4abc"
    segments.drop_fed(4)
    assert [path.name for path in tmp_path.iterdir()] == ["in.4"]
    segments.drop_all()
    assert list(tmp_path.iterdir()) == []
