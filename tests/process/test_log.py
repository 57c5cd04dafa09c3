"""The log is the truth: every byte once and in order, loss told to the byte, whatever crashes."""

import hashlib
import os
import random
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from execzmq.process.index import RECORD_SIZE, Kind
from execzmq.process.log import Dropped, OutputLog
from execzmq.process.retention import LogStat
from execzmq.settings import KIB, MAX_EVENT, MIB
from tests.process.log_model import BUDGET, STREAMS, Model
from tests.process.logs import FIRST, STARTED, add_output, end_seq, numbers, read_all, reopen
from tests.support import deadline, wait_until

STREAM = st.sampled_from(STREAMS)
SIZE = st.integers(1, 3000) | st.integers(1, 5)
STEP = (
    st.tuples(st.just("feed"), STREAM, SIZE)
    | st.tuples(st.just("output"), STREAM, SIZE)
    | st.tuples(st.just("burst"), STREAM, st.integers(1, 120))
    | st.tuples(st.just("commit"), STREAM)
    | st.tuples(st.just("notice"), st.binary(max_size=40))
    | st.tuples(st.just("shrink"), st.integers(0, BUDGET), st.none() | st.integers(0, 400))
    | st.tuples(st.just("disk"), st.none() | st.just(0) | st.integers(1, 20_000))
    | st.tuples(st.just("crash"), st.just(0) | st.integers(1, RECORD_SIZE))
    | st.tuples(st.just("check"), st.integers(0, 400), st.integers(0, 8000), st.integers(1, 50))
)
FULL_BETWEEN = [("burst", "stdout", 75), ("disk", 701), ("feed", "stdout", 1)]
"""Bytes of stdout are pending on a disk that has no room any more for an event of stderr."""

FULL_FOR_RECORDS = [
    ("disk", 0),
    ("burst", "stdout", 25),
    ("feed", "stderr", 1),
    ("burst", "stdout", 1),
    ("disk", 62),
]
"""The disk is tried when it has room for the bytes of an event and none for its record."""


@pytest.mark.slow
@settings(max_examples=150)
@given(st.integers(0, 2**32), st.lists(STEP, max_size=30))
@example(0, [*FULL_BETWEEN, ("burst", "stderr", 1), ("feed", "stdout", 1)])
@example(0, [*FULL_BETWEEN, ("burst", "stderr", 99), ("burst", "stdout", 1)])
@example(0, [*FULL_FOR_RECORDS, ("burst", "stdout", 1), ("crash", 0)])
def test_any_history_is_told_whole_c61(seed: int, steps):
    """Any mix of output, events, loss and crashes: seqs 1..n, each byte once or in exactly one `Dropped`."""
    root = Path(tempfile.mkdtemp(dir=os.environ["XDG_STATE_HOME"]))
    model = Model.begin(root / "log", seed)
    try:
        for step in steps:
            model.take(step)
        for after_seq in {0, len(model.told) // 2, len(model.told)}:
            model.check(after_seq, 4 * KIB, 100)
    finally:
        model.log.close()
        shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_long_history_is_told_whole_c61(seed: int, short_tmp: Path):
    """The same for long histories with much output, in which files are dropped and the index is rewritten."""
    chance = random.Random(seed)
    model = Model.begin(short_tmp / "log", seed)
    for _ in range(60):
        stream = chance.choice(STREAMS)
        match chance.randrange(7):
            case 0 | 1:
                model.take(("burst", stream, chance.randint(1, 120)))
            case 2:
                model.take(("feed", stream, chance.randint(1, 3000)))
            case 3:
                model.take(("notice", chance.randbytes(20)))
            case 4:
                target = chance.choice((BUDGET, chance.randint(0, BUDGET)))
                model.take(("shrink", target, chance.choice((None, chance.randint(0, 3000)))))
            case 5:
                model.take(("crash", chance.randint(0, RECORD_SIZE)))
            case 6:
                model.take(("disk", chance.choice((None, 0, chance.randint(1, 20_000)))))
    for after_seq in (0, *chance.sample(range(len(model.told)), 10)):
        model.check(after_seq, 16 * KIB, 300)
    model.log.close()


@pytest.fixture
def log(short_tmp: Path) -> Iterator[OutputLog]:
    """A log that has its first event."""
    log = OutputLog(short_tmp / "p" / "log", 7, MIB)
    log.append(*STARTED)
    yield log
    log.close()


def test_silent_process_makes_no_file(log: OutputLog, short_tmp: Path):
    """`true` costs no file system call: its events are in memory, and readable."""
    log.append("exited", b"{}", 2.0)
    log.append("closed", b"[]", 3.0)
    assert (log.is_on_disk, log.disk_bytes) == (False, 0)
    assert os.listdir(short_tmp) == []
    page = log.page(1)
    assert [entry.kind for entry in page.entries] == ["exited", "closed"]
    assert page.payloads == {2: b"{}", 3: b"[]"}
    assert page.next_seq == log.last_seq == 3
    assert log.page(0, max_events=1).next_seq == 1


def test_silent_log_is_rebuilt_from_the_journal(log: OutputLog):
    """A later server says the same of a process that had no output, with nothing but its journal."""
    log.append("closed", b"[]", 3.0)
    again = OutputLog.from_memory(log.folder, 7, MIB, [STARTED, ("closed", b"[]", 3.0)])
    assert again.page(0) == log.page(0)
    assert again.last_kind == "closed"


def test_first_byte_brings_everything_to_disk(log: OutputLog):
    """What was in memory is written before the first output, so that a restart finds all of it."""
    add_output(log, b"hello")
    assert log.is_on_disk
    before = log.page(0)
    again = reopen(log)
    assert again.page(0) == before
    assert (again.last_seq, again.last_kind, again.ends["stdout"]) == (2, "output", 5)
    again.close()


def test_prepared_files_are_those_that_are_written(log: OutputLog):
    """They count as nothing until something stands in them, also for a later server."""
    log.store.prepare()
    assert sorted(os.listdir(log.folder)) == ["idx.1", "meta.0", "out.0"]
    assert (log.is_on_disk, log.disk_bytes) == (False, 0)
    again = OutputLog.open(log.folder, 7, MIB, first=[STARTED])
    assert (again.is_on_disk, again.damaged, again.page(0)) == (False, False, log.page(0))
    log.store.prepare()
    made = {entry.name: entry.stat().st_ino for entry in log.folder.iterdir()}
    add_output(log, b"hello")
    assert made == {entry.name: entry.stat().st_ino for entry in log.folder.iterdir()}
    again = reopen(log)
    assert (again.last_seq, again.ends["stdout"], again.damaged) == (2, 5, False)
    again.close()


@pytest.mark.parametrize("end", ["closed", "failed"])
def test_what_was_prepared_for_nothing_goes(log: OutputLog, end: Kind):
    """A silent process leaves no file; what is not ours in its folder is left alone."""
    log.store.prepare()
    log.append(end, b"[]", 3.0)
    assert not log.folder.exists()
    other = OutputLog(log.folder, 8, MIB)
    other.store.prepare()
    (log.folder / "mine").touch()
    other.append(end, b"[]", 3.0)
    assert os.listdir(log.folder) == ["mine"]


def test_what_cannot_be_prepared_is_made_when_it_is_needed(short_tmp: Path):
    """A folder that cannot be made is an error of the first output alone."""
    (short_tmp / "p").touch()
    log = OutputLog(short_tmp / "p" / "log", 7, MIB)
    log.store.prepare()
    with pytest.raises(OSError, match="Not a directory"):
        log.feed("stdout", b"x")
    log.append("failed", b"{}", 2.0)


@pytest.mark.parametrize("kind", ["notice", "exited"])
def test_event_that_a_restart_must_find_is_written(log: OutputLog, kind: Kind):
    """A notice at once, any other event when asked for: its seq is not used again."""
    log.append(kind, b"{}", 2.0)
    if kind == "exited":
        log.persist()
    again = reopen(log)
    assert (again.last_seq, again.last_kind) == (2, kind)
    again.close()


def test_end_without_output_makes_no_file(log: OutputLog):
    """A stream that only ends, or has nothing to say yet, does not bring a log to disk."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        with pytest.raises(BlockingIOError):
            log.splice("stdout", reader, 100)
        os.close(writer)
        assert log.splice("stdout", reader, 100) == 0
    finally:
        os.close(reader)
    assert not log.is_on_disk
    assert log.commit("stdout", 2.0) is None


def test_pending_never_passes_one_event(log: OutputLog):
    """More than an event's worth stays in the pipe, or is refused, until there was a `commit`."""
    log.feed("stdout", bytes(MAX_EVENT - 2))
    with pytest.raises(ValueError, match="more bytes"):
        log.feed("stdout", b"abc")
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        os.write(writer, b"abc")
        assert log.splice("stdout", reader, 100) == 2
        with pytest.raises(ValueError, match="pending"):
            log.splice("stdout", reader, 100)
        assert os.read(reader, 100) == b"c"
    finally:
        os.close(reader)
        os.close(writer)
    record = log.commit("stdout", 2.0)
    assert record is not None
    assert (record.length, log.pending("stdout")) == (MAX_EVENT, 0)


def test_interleaved_streams_come_back_in_order(log: OutputLog):
    """A page of many small events of both streams has each one's bytes in its place."""
    told = [(STREAMS[number % 3 % 2], b"%d " % number) for number in range(3000)]
    for stream, data in told:
        add_output(log, data, stream)
    entries, output = read_all(log)
    assert [entry.stream for entry in entries[1:] if not isinstance(entry, Dropped)] == [s for s, _ in told]
    assert output == b"".join(data for _, data in told)
    assert read_all(log, max_bytes=100) == (entries, output)


def _drain(log: OutputLog, argv: list[str], budget: int | None = None) -> None:
    """Take the output of a child into the log, shrinking it whenever it has doubled its budget."""
    limit = deadline(30)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child, select.epoll() as poller:
        assert child.stdout is not None
        fd = child.stdout.fileno()
        os.set_blocking(fd, False)
        poller.register(fd, select.EPOLLIN)
        while True:
            poller.poll(limit.left())
            moved = log.splice("stdout", fd, MAX_EVENT)
            log.commit("stdout", 2.0)
            if budget is not None and log.disk_bytes > 2 * budget:
                log.shrink(budget)
            if moved == 0:
                return


@pytest.mark.slow
def test_large_output_is_whole_for_a_slow_reader_c04(log: OutputLog):
    """Who reads 1,000 bytes a page afterwards gets all of it, or is told what is missing."""
    _drain(log, ["seq", "1", "300000"])
    expected = b"".join(b"%d\n" % number for number in range(1, 300001))
    digest, at, count = hashlib.sha256(), 0, 0
    while (page := log.page(at, 1000)).entries:
        assert not any(isinstance(entry, Dropped) for entry in page.entries)
        digest.update(page.buffer)
        at, count = page.next_seq, count + 1
    assert digest.digest() == hashlib.sha256(expected).digest()
    assert count >= log.last_seq // 2


@pytest.mark.slow
def test_giant_output_keeps_both_ends_and_counts_the_rest_c43(short_tmp: Path):
    """80 MB into a budget of 1 MB: both ends exact, loss told to the byte, few files, few bytes."""
    log = OutputLog(short_tmp / "log", 7, MIB)
    log.append(*STARTED)
    _drain(log, ["seq", str(FIRST), str(FIRST + 8_999_999)], budget=MIB)
    total = 9 * 9_000_000
    log.shrink(MIB)
    entries, output = read_all(log)
    (hole,) = (entry for entry in entries if isinstance(entry, Dropped))
    head = sum(
        e.length
        for e in entries
        if not isinstance(e, Dropped) and e.stream == "stdout" and e.seq < hole.from_seq
    )
    tail = len(output) - head
    assert log.ends["stdout"] == total == len(output) + hole.bytes
    assert log.dropped == {"stdout": hole.bytes, "stderr": 0}
    assert output[:head] == numbers(0, head)
    assert output[head:] == numbers(total - tail, total)
    cost = RECORD_SIZE * log.last_seq
    assert min(head, tail) >= MIB // 2 - MAX_EVENT - cost
    assert log.disk_bytes <= MIB + 4 * (MAX_EVENT + MIB // 8) + cost
    assert len(os.listdir(log.folder)) < 30
    again = reopen(log)
    assert read_all(again) == (entries, output)
    again.close()


def test_flood_never_evicts_the_other_stream(short_tmp: Path):
    """A stream keeps its eighth of the budget, from its begin and its end, whatever the other one writes."""
    log = OutputLog(short_tmp / "log", 7, MIB)
    log.append(*STARTED)
    for number in range(400):
        add_output(log, bytes(64 * KIB))
        add_output(log, b"%03d" % number * 300, "stderr")
        log.shrink(MIB)
    errors = [e for e in read_all(log)[0] if not isinstance(e, Dropped) and e.stream == "stderr"]
    kept = sum(entry.length for entry in errors)
    assert kept >= MIB // 8 - 2 * 1000
    assert (errors[0].offset, errors[-1].offset) == (0, 399 * 900)
    assert kept + log.dropped["stderr"] == 400 * 900
    log.close()


def test_what_a_starter_has_not_received_stays(log: OutputLog):
    """Nothing after `keep_after` is dropped, however small the target."""
    add_output(log, bytes(8 * MIB))
    log.shrink(0, keep_after=10)
    entries, _ = read_all(log)
    assert [end_seq(entry) for entry in entries if isinstance(entry, Dropped)] == [10]


@pytest.mark.parametrize("size", [200, 20_000, 200_000])
def test_a_log_can_be_shrunk_to_what_a_plan_counts_on(short_tmp: Path, size: int):
    """Whatever the events: with its budget as target a log comes down to the size that plans reckon with."""
    log = OutputLog(short_tmp / "log", 7, MIB)
    log.append(*STARTED)
    for number in range(max(80, 8 * MIB // size // 8)):
        add_output(log, bytes(size), STREAMS[number % 5 == 0])
    while log.shrink(MIB):
        pass
    assert log.disk_bytes <= LogStat("a", 0, MIB).settled
    log.close()


def test_shrinking_can_be_done_piece_by_piece(log: OutputLog):
    """With `most` a call unlinks no more files than that, and later calls come to the same end."""
    add_output(log, bytes(8 * MIB))
    files = len(os.listdir(log.folder))
    log.shrink(MIB, most=3)
    assert len(os.listdir(log.folder)) == files - 3
    while log.shrink(MIB, most=3):
        pass
    assert log.disk_bytes <= 2 * MIB


def test_cursor_of_a_dropped_event_is_told_its_loss_to_the_byte(short_tmp: Path):
    """A reader whose place was dropped, index and all, between two pages still gets the exact count."""
    log = OutputLog(short_tmp / "log", 7, BUDGET)
    log.append(*STARTED)
    for _ in range(4000):
        add_output(log, b"x")
    at = log.page(0, max_events=2000).next_seq
    while log.shrink(4 * KIB):
        pass
    hole = log.page(at).entries[0]
    assert isinstance(hole, Dropped)
    assert hole.from_seq == at + 1
    assert hole.bytes == hole.to_seq - at
    assert log.ends_at(at) == {"stdout": at - 1, "stderr": 0}
    log.close()


def test_few_descriptors_and_none_after_the_end(log: OutputLog):
    """A log holds a descriptor per stream and one for the index, and reads without keeping any."""
    before = set(os.listdir("/proc/self/fd"))
    add_output(log, bytes(2 * MIB))
    add_output(log, bytes(2 * MIB), "stderr")
    log.append("notice", b"{}", 2.0)
    log.page(0)
    log.shrink(MIB)
    wait_until(lambda: len(set(os.listdir("/proc/self/fd")) - before) <= 3)
    log.close()
    log.close()
    assert set(os.listdir("/proc/self/fd")) <= before
    add_output(log, b"more")
    log.append("closed", b"{}", 3.0)
    assert set(os.listdir("/proc/self/fd")) <= before
    assert log.page(log.last_seq - 2).buffer == b"more"


def test_remove_leaves_nothing(log: OutputLog, short_tmp: Path):
    """A log that is forgotten is gone with its folder; one that never had files is too."""
    add_output(log, b"data")
    log.remove()
    log.remove()
    assert os.listdir(short_tmp / "p") == []
