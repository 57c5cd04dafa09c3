"""Whatever others do to the files of a log, its reader is told what is gone and comes to the end in order."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from execzmq.errors import ServerError
from execzmq.process import payloads
from execzmq.process.index import RECORD_SIZE
from execzmq.process.managed import ManagedProcess
from execzmq.process.reading import page_of
from execzmq.types.events import Closed, Event, Exited, Gap, Output, Started
from tests.process.processes import Notes, end, make_process, start

Harm = Callable[[Path], None]


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _fill_with_junk(path: Path) -> None:
    path.write_bytes(b"\xc1" * path.stat().st_size)


def _lengthen(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"junk" * RECORD_SIZE)


HARMS: list[Harm] = [os.unlink, _cut, _fill_with_junk, _lengthen]


def _harm(process: ManagedProcess, pattern: str, harm: Harm) -> None:
    for path in process.log.folder.glob(pattern):
        harm(path)


def _write(process: ManagedProcess, writer: int, data: bytes) -> None:
    os.write(writer, data)
    process.streams.drain()


def _read(process: ManagedProcess) -> list[Event]:
    """Return all events, and see that none is told twice and none is missing."""
    events: list[Event] = []
    seq = 0
    while seq < process.log.last_seq:
        page = page_of(process, seq)
        events += payloads.events_of(page)
        seq = page.next_seq
    ends = [(e.from_seq, e.to_seq) if isinstance(e, Gap) else (e.seq, e.seq) for e in events]
    assert [first for first, _ in ends] == [1, *(last + 1 for _, last in ends[:-1])]
    assert ends[-1][1] == process.log.last_seq
    return events


def _told(events: list[Event]) -> list[object]:
    return [e.data if isinstance(e, Output) else e.bytes if isinstance(e, Gap) else type(e) for e in events]


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_folder_removed_while_a_command_runs(short_tmp: Path, depth: int) -> None:
    """What comes afterwards goes into new files, those above made too; the end is told with its status."""
    notes = Notes()
    process = make_process(short_tmp / "state" / "p", notes)
    writers = start(process)
    _write(process, writers["stdout"], b"before")
    shutil.rmtree([process.log.folder, *process.log.folder.parents][depth])
    _write(process, writers["stdout"], b"after")
    _write(process, writers["stderr"], b"more")
    end(process, writers, 3 << 8)
    events = _read(process)
    assert _told(events) == [Started, 6, b"after", b"more", Exited, Closed]
    assert isinstance(events[-1], Closed)
    assert (events[-1].result.exit_code, events[-1].result.dropped_bytes["stdout"]) == (3, 6)
    assert notes.troubles == []
    assert process.log.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("pattern", ["idx.*", "meta.*"])
async def test_index_and_payloads_spoilt(short_tmp: Path, pattern: str, harm: Harm) -> None:
    """Start, exit and end are told also where neither their records nor their payloads can be read."""
    process = make_process(short_tmp, Notes())
    writers = start(process)
    _write(process, writers["stdout"], b"before")
    _harm(process, pattern, harm)
    _write(process, writers["stdout"], b"after")
    end(process, writers, 3 << 8)
    _harm(process, pattern, harm)
    events = _read(process)
    assert [type(events[0]), *map(type, events[-2:])] == [Started, Exited, Closed]
    lost = sum(e.bytes for e in events if isinstance(e, Gap))
    assert lost + sum(len(e.data) for e in events if isinstance(e, Output)) == 11
    assert {e.data for e in events if isinstance(e, Output)} <= {b"before", b"after"}


@pytest.mark.parametrize("harm", [os.unlink, _cut, _lengthen])
async def test_output_spoilt(short_tmp: Path, harm: Harm) -> None:
    """Output that others have taken away is a gap, and nothing is written behind what they have left."""
    process = make_process(short_tmp, Notes())
    writers = start(process)
    _write(process, writers["stdout"], b"before")
    _harm(process, "out.*", harm)
    _write(process, writers["stdout"], b"after")
    end(process, writers)
    first = b"before" if harm is _lengthen else 6
    assert _told(_read(process)) == [Started, first, b"after", Exited, Closed]


async def test_all_gone_after_the_end(short_tmp: Path) -> None:
    """A finished log without files is its start, one gap and its end."""
    process = make_process(short_tmp, Notes())
    writers = start(process)
    _write(process, writers["stdout"], b"x" * 1000)
    end(process, writers)
    shutil.rmtree(process.log.folder)
    events = _read(process)
    assert _told(events) == [Started, 1000, Exited, Closed]
    assert all(event.time > 0 for event in events)


async def test_file_that_cannot_be_read(short_tmp: Path) -> None:
    """What may be readable later is no gap, but an error that names the file."""
    process = make_process(short_tmp, Notes())
    writers = start(process)
    _write(process, writers["stdout"], b"x")
    end(process, writers)
    path = process.log.folder / "out.0"
    path.unlink()
    path.mkdir()
    (path / "more").write_bytes(b"")
    with pytest.raises(ServerError, match="cannot be read now"):
        page_of(process, 0)
