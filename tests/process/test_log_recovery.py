"""What a crash leaves is taken up again: no byte lost, no seq used twice, damage said."""

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import execzmq
from execzmq.process.held import Memory
from execzmq.process.index import RECORD_SIZE
from execzmq.process.log import Dropped, OutputLog
from execzmq.settings import KIB, MAX_EVENT, MIB
from tests.disk import fill_disk
from tests.process.log_model import STREAMS, Model
from tests.process.logs import FIRST, STARTED, add_output, end_seq, numbers, read_all, reopen
from tests.support import child


@pytest.fixture
def log(short_tmp: Path) -> Iterator[OutputLog]:
    """A log that has its first event."""
    log = OutputLog(short_tmp / "p" / "log", 7, MIB)
    log.append(*STARTED)
    yield log
    log.close()


def test_bytes_that_nobody_was_told_of_become_events(log: OutputLog):
    """What was moved to disk and not recorded before the crash gets the next seqs, in pieces of an event."""
    add_output(log, b"told")
    log.close()
    with open(log.folder / "out.0", "ab") as data:
        data.write(bytes(MAX_EVENT + 5))
    again = reopen(log, now=9.5)
    records = [entry for entry in again.page(2).entries if not isinstance(entry, Dropped)]
    assert [(r.seq, r.length, r.offset, r.time) for r in records] == [
        (3, MAX_EVENT, 4, 9.5),
        (4, 5, 4 + MAX_EVENT, 9.5),
    ]
    assert not again.damaged
    again.close()


def test_output_that_came_before_any_record(log: OutputLog):
    """Where somebody else wrote the first bytes, the events of the journal come before them."""
    os.makedirs(log.folder)
    (log.folder / "err.0").write_bytes(b"early")
    again = reopen(log)
    assert [entry.kind for entry in again.page(0).entries] == ["started", "output"]
    assert again.ends == {"stdout": 0, "stderr": 5}
    again.close()


def test_torn_record_is_cut_and_its_seq_is_free(log: OutputLog):
    """A record of which a crash left a part was never told; its bytes become a new event with its seq."""
    add_output(log, b"first")
    add_output(log, b"second")
    log.close()
    index = log.folder / "idx.1"
    os.truncate(index, index.stat().st_size - 1)
    again = reopen(log)
    assert (again.last_seq, again.ends["stdout"], again.damaged) == (3, 11, False)
    assert read_all(again)[1] == b"firstsecond"
    again.close()


@pytest.mark.parametrize("bad", [2, 3])
def test_more_than_one_bad_record_is_damage(log: OutputLog, bad: int):
    """Several bad records are no kill but a power loss: a seq that was told could be given again."""
    for number in range(5):
        add_output(log, b"%d" % number)
    log.close()
    with open(log.folder / "idx.1", "r+b") as index:
        index.seek(-bad * RECORD_SIZE, os.SEEK_END)
        index.write(bytes(bad * RECORD_SIZE))
    again = reopen(log)
    assert again.damaged
    assert again.last_seq == 6 - bad
    again.close()


def test_missing_data_is_damage_and_told_as_loss(log: OutputLog):
    """An index that tells of more than the data have: nothing is made up, what is gone is `Dropped`."""
    add_output(log, b"first")
    add_output(log, b"second")
    log.close()
    os.truncate(log.folder / "out.0", 8)
    again = reopen(log)
    assert again.damaged
    entries, output = read_all(again)
    assert output == b"first"
    assert entries[-1] == Dropped(3, 3, 6)
    again.close()


def test_bad_record_in_the_middle_is_a_hole(log: OutputLog):
    """A record that cannot be read any more costs its own event only, told to the byte."""
    for number in range(4):
        add_output(log, b"%d" % number * (number + 1))
    log.close()
    with open(log.folder / "idx.1", "r+b") as index:
        index.seek(2 * RECORD_SIZE)
        index.write(b"garbage")
    again = reopen(log)
    entries, output = read_all(again)
    assert entries[2] == Dropped(3, 3, 2)
    assert output == b"03333"[:1] + b"222" + b"3333"
    again.close()


def test_nothing_follows_the_last_event(log: OutputLog):
    """Bytes beyond the end of a closed log are discarded and counted."""
    add_output(log, b"data")
    log.append("closed", b"{}", 3.0)
    log.close()
    with open(log.folder / "out.0", "ab") as data:
        data.write(b"late")
    again = reopen(log)
    assert (again.last_seq, again.last_kind, again.discarded_bytes) == (3, "closed", 4)
    assert again.ends["stdout"] == 4
    again.close()


SERVER = """
import os, select, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from execzmq.process.log import OutputLog
log = OutputLog.open(Path(sys.argv[2]), 7, 1 << 20, 9.0, first=[("started", b"{}", 1.0)])
while True:
    select.select([0], [], [])
    moved = log.splice("stdout", 0, 3000)
    record = log.commit("stdout", 2.0)
    if not moved:
        log.append("closed", b"{}", 3.0)
        break
    print(record.seq, record.offset, record.length, flush=True)
"""


@pytest.mark.slow
def test_killed_servers_lose_no_byte_and_reuse_no_seq(short_tmp: Path):
    """Servers are killed at work: each byte is in the log once, what was told stays true."""
    chance = random.Random(1)
    told: list[str] = []
    argv = [*child(SERVER), str(Path(execzmq.__file__).parents[1]), str(short_tmp / "log")]
    with subprocess.Popen(["seq", str(FIRST), str(FIRST + 99_999)], stdout=subprocess.PIPE) as producer:
        assert producer.stdout is not None
        os.set_blocking(producer.stdout.fileno(), False)
        for _ in range(5):
            with subprocess.Popen(argv, stdin=producer.stdout, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                told += [server.stdout.readline() for _ in range(chance.randint(1, 40))]
                server.kill()
                told += server.stdout.read().splitlines(keepends=True)
        last = subprocess.run(argv, stdin=producer.stdout, capture_output=True, text=True, check=True)
    told += last.stdout.splitlines(keepends=True)
    log = OutputLog.open(short_tmp / "log", 7, MIB)
    entries, output = read_all(log)
    assert output == numbers(0, 900_000)
    assert [end_seq(entry) for entry in entries] == list(range(1, log.last_seq + 1))
    stands = {f"{e.seq} {e.offset} {e.length}\n" for e in entries if not isinstance(e, Dropped)}
    assert {line for line in told if line.endswith("\n")} <= stands
    assert log.last_kind == "closed"


class _KilledError(Exception):
    pass


@pytest.mark.parametrize("name", ["unlink", "rename", "write"])
@pytest.mark.parametrize("after", range(0, 9, 2))
def test_crash_while_shrinking_keeps_the_truth(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
):
    """A kill between any two steps of giving space back leaves a log that tells its loss exactly."""
    model = Model.begin(short_tmp / "log", after)
    for number in range(40):
        model.take(("burst", STREAMS[number % 2], 60))
    call, calls = getattr(os, name), iter(range(after))

    def killed(*args: object) -> object:
        if next(calls, None) is None:
            raise _KilledError
        return call(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, killed)
        try:
            while model.log.shrink(4 * KIB):
                pass
        except _KilledError:
            pass
    model.crash(0)
    model.check(0, 64 * KIB, 1000)
    while model.log.shrink(4 * KIB):
        pass
    model.check(0, 64 * KIB, 1000)
    model.log.close()


def test_a_record_that_the_disk_does_not_take_is_held(log: OutputLog, monkeypatch: pytest.MonkeyPatch):
    """It has its seq and can be read; when there is room it is written, and a half written one is no harm."""
    add_output(log, b"first")
    log.feed("stdout", b"second")
    write = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if len(data) > 10:
            write(fd, data[:10], offset)
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert log.commit("stdout", 2.0) is not None
        log.append("notice", b"{}", 2.0)
        assert not log.recover()
    assert (log.last_seq, log.pending("stdout")) == (4, 0)
    assert read_all(log)[1] == b"firstsecond"
    assert log.recover()
    entries, output = read_all(reopen(log))
    assert output == b"firstsecond"
    assert [end_seq(entry) for entry in entries] == [1, 2, 3, 4]


def test_bytes_pending_on_disk_are_an_event_before_memory_takes_more_x03(
    log: OutputLog, monkeypatch: pytest.MonkeyPatch
):
    """The record of the other stream found no room: these bytes count, and come, before those in memory."""
    log.feed("stdout", b"disk")
    log.feed("stderr", b"other")
    with monkeypatch.context() as patch:
        fill_disk(patch)
        assert log.commit("stderr", 2.0) is not None
        assert (log.pending("stdout"), log.room("stdout")) == (4, 0)
        with pytest.raises(ValueError, match="more bytes"):
            log.feed("stdout", b"memory")
        first = log.commit("stdout", 2.0)
        log.feed("stdout", b"memory")
        assert log.pending("stdout") == 6
        second = log.commit("stdout", 2.0)
    assert first is not None
    assert second is not None
    assert (first.length, second.length, second.offset, log.pending("stdout")) == (4, 6, 4, 0)
    told = read_all(log)
    assert told[1] == b"otherdiskmemory"
    assert log.recover()
    again = reopen(log)
    assert (read_all(again), again.damaged) == (told, False)
    again.close()


def test_a_dropped_event_leaves_no_bytes_on_disk_x03(short_tmp: Path, monkeypatch: pytest.MonkeyPatch):
    """Its bytes found room and its record none: when memory needs its place, the loss counts them too."""
    log = OutputLog(short_tmp / "log", 7, MIB, Memory(16 * KIB, MIB))
    log.append(*STARTED)
    add_output(log, b"first")
    log.store.hold(OSError(errno.ENOSPC, "full"))
    with monkeypatch.context() as patch:
        fill_disk(patch, spare=("out.",))
        for number in range(40):
            add_output(log, b"%04d" % number * 250)
            assert not log.recover()
            log.store.drop_held(None)
    lost = log.dropped["stdout"]
    assert lost > 20_000
    assert log.recover()
    told, again = read_all(log), reopen(log)
    assert (read_all(again), again.damaged, again.dropped["stdout"]) == (told, False, lost)
    assert lost + len(told[1]) == 5 + 40 * 1000
    assert sum(path.stat().st_size for path in again.folder.glob("out.*")) == len(told[1])
    again.close()


@pytest.mark.parametrize("rest", [b"", b"end"])
def test_files_that_a_keeper_has_begun(log: OutputLog, rest: bytes):
    """Where the keeper stored on no event is in two files, and the newest goes on, though it be empty."""
    add_output(log, b"told ")
    log.close()
    size = 20_000
    with open(log.folder / "out.0", "ab") as data:
        data.write(bytes(size - 5))
    (log.folder / f"out.{size}").write_bytes(rest)
    again = OutputLog.open(log.folder, 7, 8 * size)  # so that a file is full with that
    assert again.last_seq == 3 + bool(rest)
    add_output(again, b"more")
    assert again.read_output(again.page(again.last_seq - 1).entries[0]) == b"more"  # type: ignore[arg-type]
    names = sorted(path.name for path in log.folder.glob("out.*"))
    assert names == ["out.0", f"out.{size}"]
    assert (log.folder / f"out.{size}").read_bytes() == rest + b"more"
    again.close()
    once_more = reopen(again)
    assert (once_more.ends["stdout"], once_more.damaged) == (size + len(rest) + 4, False)
    once_more.close()
