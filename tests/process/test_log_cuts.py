"""What a power cut leaves of a log is a readable prefix: files are cut at each byte of their last records."""

import os
import shutil
from pathlib import Path

import pytest

from execzmq.process.index import RECORD_SIZE, Record
from execzmq.process.log import Dropped, OutputLog
from execzmq.settings import MIB
from tests.process.logs import STARTED, add_output, end_seq, read_all

OUTPUT = {"stdout": b"first second third ", "stderr": b"other "}


@pytest.fixture
def whole(short_tmp: Path) -> Path:
    """The folder of a log that has ended."""
    log = OutputLog(short_tmp / "whole", 7, MIB)
    log.append(*STARTED)
    add_output(log, b"first ")
    add_output(log, b"second ")
    add_output(log, b"other ", "stderr")
    add_output(log, b"third ")
    log.append("exited", b"{'exit': 1}", 3.0)
    log.append("closed", b"{'exit': 1}", 3.0)
    return short_tmp / "whole"


def opened(folder: Path) -> tuple[OutputLog, list[Record | Dropped]]:
    """Open a log, and check that it tells every byte that it has as it was, and no seq twice."""
    log = OutputLog.open(folder, 7, MIB, 9.0, first=[STARTED])
    entries, output = read_all(log)
    seq = position = 0
    for entry in entries:
        assert (entry.from_seq if isinstance(entry, Dropped) else entry.seq) == seq + 1
        seq = end_seq(entry)
        if isinstance(entry, Dropped) or entry.kind != "output":
            continue
        data = output[position : position + entry.length]
        position += entry.length
        assert OUTPUT[entry.stream][entry.offset : entry.offset + entry.length] == data
    assert log.last_seq == seq
    log.close()
    return log, entries


def cuts(path: Path) -> range:
    """Return where to cut a file: at every byte of its last three records, or of all there is."""
    size = path.stat().st_size
    return range(max(0, size - 3 * RECORD_SIZE), size)


@pytest.mark.parametrize(
    ("name", "zeros"),
    [("idx.1", False), ("idx.1", True), ("out.0", False), ("err.0", False), ("meta.0", False)],
)
def test_a_file_that_is_cut_at_any_byte(whole: Path, short_tmp: Path, name: str, zeros: bool) -> None:
    """What is left is read as it was told, once more the same, and it is known that something is missing.

    Only an index that is cut between two records looks whole; of that the boot of the machine tells.
    """
    told = opened(whole)[1]
    folder = short_tmp / "cut"
    for end in cuts(whole / name):
        shutil.copytree(whole, folder)
        size = (whole / name).stat().st_size
        os.truncate(folder / name, end)
        if zeros:
            os.truncate(folder / name, size)
        log, entries = opened(folder)
        assert opened(folder)[1] == entries
        is_torn = name == "idx.1" and size - end <= RECORD_SIZE
        if name != "idx.1":
            assert log.damaged
        if is_torn or (name == "idx.1" and not zeros and end % RECORD_SIZE == 0):
            assert not log.damaged
        if name == "idx.1":
            kept = [entry for entry in entries if entry in told]
            assert kept == told[: len(kept)]
        shutil.rmtree(folder)


def test_a_whole_index_file_that_is_gone(whole: Path) -> None:
    """The data tell what there was, as new events after the one that the journal knows."""
    (whole / "idx.1").unlink()
    log, entries = opened(whole)
    assert [entry.kind for entry in entries] == ["started", "output", "output"]
    assert log.ends == {"stdout": 19, "stderr": 6}
