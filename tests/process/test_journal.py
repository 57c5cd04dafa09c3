"""The journal gives back what was written, but for what a crash has torn or the disk has damaged."""

import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.process.journal import Journal, without_forgotten
from tests.disk import fill_disk

START = {"kind": "start", "process_id": "a", "instance": 1}
END = {"kind": "end", "process_id": "a", "instance": 1, "exit_code": 0}
FORGET = {"kind": "forget", "process_id": "a", "instance": 1}


def _replayed(path: Path) -> list[dict[str, object]]:
    journal = Journal(path)
    try:
        return journal.replay()
    finally:
        journal.close()


def _written(path: Path, *records: dict[str, object]) -> bytes:
    journal = Journal(path)
    for record in records:
        journal.append(record)
    journal.close()
    return path.read_bytes()


def test_records_come_back_in_order(short_tmp: Path):
    """A new server reads what an earlier one wrote, and goes on after it."""
    _written(short_tmp / "journal", START, END)
    _written(short_tmp / "journal", FORGET)
    assert _replayed(short_tmp / "journal") == [START, END, FORGET]


def test_no_journal_is_an_empty_one(short_tmp: Path):
    """The first server of a state folder finds nothing."""
    assert _replayed(short_tmp / "journal") == []


def test_any_bytes_of_a_name_survive_c45(short_tmp: Path):
    """Names that are no UTF-8 are text that names every byte, in a file of ASCII only."""
    name = bytes(range(1, 256))
    data = _written(short_tmp / "journal", {**START, "argv": [b"ls", name]})
    assert data.isascii()
    assert data.count(b"\n") == 1
    (record,) = _replayed(short_tmp / "journal")
    assert isinstance(record["argv"], list)
    assert os.fsencode(record["argv"][1]) == name


def test_unknown_kinds_and_values_are_refused(short_tmp: Path):
    """What could not be read back is not written."""
    journal = Journal(short_tmp / "journal")
    with pytest.raises(ValueError, match="stop"):
        journal.append({"kind": "stop"})
    with pytest.raises(TypeError, match="object"):
        journal.append({"kind": "start", "value": object()})
    journal.close()
    assert not (short_tmp / "journal").exists()


def test_torn_line_is_cut_at_any_byte(short_tmp: Path):
    """A crash within the last line costs that line only, and the next record is whole."""
    path = short_tmp / "journal"
    whole = _written(path, START)
    torn = _written(path, END)
    for end in range(len(whole), len(torn)):
        path.write_bytes(torn[:end])
        journal = Journal(path)
        assert journal.replay() == [START]
        journal.append(FORGET)
        journal.close()
        assert _replayed(path) == [START, FORGET]


@given(st.integers(0, 200), st.integers(1, 255))
def test_damage_never_gives_a_wrong_record(position: int, mask: int):
    """Whatever byte is damaged, the records of all other lines come back and none is made up."""
    path = Path(os.environ["XDG_STATE_HOME"]) / "journal"
    path.unlink(missing_ok=True)
    written = _written(path, START, END, FORGET)
    data = bytearray(written)
    position %= len(data)
    data[position] ^= mask
    path.write_bytes(data)
    line = written[:position].count(b"\n")
    is_its_end = written[position] == ord("\n")  # without it the line runs into the next
    lost = {line, line + 1} if is_its_end else {line}
    assert _replayed(path) == [r for n, r in enumerate([START, END, FORGET]) if n not in lost]


def test_damage_in_the_middle_is_told_once(short_tmp: Path, caplog: pytest.LogCaptureFixture):
    """What follows is kept, what is written afterwards too, and the next compaction takes the damage away."""
    path = short_tmp / "journal"
    data = _written(path, START, END, FORGET)
    path.write_bytes(data.replace(b"exit_code", b"exit-code"))
    journal = Journal(path)
    with caplog.at_level(logging.ERROR):
        assert journal.replay() == [START, FORGET]
    assert caplog.messages == [f"damaged lines left out of {path}: 1"]
    assert (journal.damaged, journal.is_behind) == (1, True)
    journal.append(END)
    assert _replayed(path) == [START, FORGET, END]
    journal.compact([START])
    assert (journal.replay(), journal.damaged, journal.is_behind) == ([START], 0, False)
    journal.close()


def test_damage_at_the_end_is_cut(short_tmp: Path):
    """After a power cut the last block may hold anything, line ends too."""
    path = short_tmp / "journal"
    data = _written(path, START)
    path.write_bytes(data + bytes(100) + b"\n" + bytes(100) + b"\ntorn")
    journal = Journal(path)
    assert (journal.replay(), journal.damaged) == ([START], 0)
    journal.close()
    assert path.read_bytes() == data


def test_compaction_keeps_what_is_asked_for(short_tmp: Path):
    """The new file has the records that were named, the journal goes on in it, nothing else is left."""
    path = short_tmp / "journal"
    journal = Journal(path)
    for record in (START, END, FORGET, {**START, "process_id": "b"}):
        journal.append(record)
    journal.compact(without_forgotten(journal.replay()))
    journal.append({**END, "process_id": "b"})
    assert journal.records == 2
    journal.close()
    journal.close()
    assert [(r["kind"], r["process_id"]) for r in _replayed(path)] == [("start", "b"), ("end", "b")]
    assert os.listdir(short_tmp) == ["journal"]


def test_what_a_full_disk_refuses_is_written_later_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was noted comes first when there is room; what was not written is no record."""
    path = short_tmp / "journal"
    journal = Journal(path)
    journal.append(START)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        for record in (END, FORGET):
            journal.note(record)
        with pytest.raises(OSError, match="No space"):
            journal.append({**START, "instance": 2})
        assert not journal.catch_up()
        assert (journal.owes, journal.is_behind) == (True, True)
    journal.append({**START, "instance": 3})
    assert (journal.owes, journal.is_behind, journal.catch_up()) == (False, False, True)
    journal.close()
    assert _replayed(path) == [START, END, FORGET, {**START, "instance": 3}]


def test_a_half_written_record_is_taken_back(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk gets full within a line: nothing of it stays, however short the next one is."""
    path = short_tmp / "journal"
    journal = Journal(path)
    journal.append(START)
    write = os.pwrite

    def half(fd: int, data: bytes, offset: int) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[: len(data) // 2], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        journal.note({**END, "long": "x" * 200})
    assert _replayed(path) == [START]
    assert path.read_bytes().count(b"\n") == 1
    journal.close()


def test_a_reserve_is_asked_for_once_x03(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something can be spared the record is tried once more."""
    errors: list[OSError] = []

    def relieve(error: OSError) -> bool:
        errors.append(error)
        if len(errors) == 1:
            patch.undo()
        return True

    journal = Journal(short_tmp / "journal", relieve)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        journal.append(START)
        fill_disk(patch)
        with pytest.raises(OSError, match="No space"):
            journal.append(END)
    journal.close()
    assert _replayed(short_tmp / "journal") == [START]
    assert len(errors) == 2


def test_a_compaction_that_fails_leaves_the_journal(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no half of a new one, whose room would be needed."""
    path = short_tmp / "journal"
    journal = Journal(path)
    journal.append(START)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(OSError, match="No space"):
            journal.compact([START, END])
    assert os.listdir(short_tmp) == ["journal"]
    journal.append(END)
    journal.close()
    assert _replayed(path) == [START, END]


def test_forget_takes_only_its_own_instance():
    """A process_id that was used again after a forget keeps its new life."""
    again = {**START, "instance": 2}
    assert without_forgotten([START, END, FORGET, again]) == [again]
    assert without_forgotten([START, again, END, FORGET]) == [again]


def test_compaction_leaves_the_journal_of_another_alone(short_tmp: Path):
    """Where the folder was removed it is written anew; where another has made one since, it is that one's."""
    path = short_tmp / "journal"
    journal = Journal(path)
    journal.append(START)
    path.unlink()
    journal.compact([START])
    assert _replayed(path) == [START]
    path.unlink()
    theirs = _written(path, END)
    with pytest.raises(OSError, match="Stale"):
        journal.compact([START])
    assert path.read_bytes() == theirs
    assert [one.name for one in short_tmp.iterdir()] == ["journal"]
    journal.close()
