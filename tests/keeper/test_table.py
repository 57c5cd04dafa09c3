"""Records: what an orphaned keeper may drop, and what it writes."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execzmq.keeper.launch import SpawnError
from execzmq.keeper.spawn import spawn
from execzmq.keeper.table import Record, Table
from tests.keeper.harness import shell
from tests.support import wait_until


@pytest.fixture
def table() -> Iterator[Table]:
    """A table that is emptied after the test."""
    table = Table()
    yield table
    for record in table:
        if not record.has_ended:
            record.kill()
            os.waitpid(record.pid, 0)
        table.forget(record)


def start(table: Table, line: str, **more: Any) -> Record:
    """Start a shell line and take it into the table."""
    launch = shell(line, **more)
    return table.add(launch, spawn(launch, {}), 1.0)


def reap(table: Table, record: Record) -> None:
    """Wait for the end of a command and note it."""
    pid, status, _ = os.wait4(record.pid, 0)
    assert table.ended(pid, status, {"user": 0.5}, 2.0) is record


def test_unread_output_is_not_drained(table: Table) -> None:
    """A pipe with bytes in it, or with a writer, is not at its end."""
    record = start(table, "printf four")
    reap(table, record)
    assert not record.is_drained()
    assert os.read(record.fds["stdout"], 10) == b"four"
    assert record.is_drained()


def test_writer_alive_is_not_drained(table: Table) -> None:
    """A background job that holds the pipe may still write."""
    record = start(table, "sleep 60 & exit 0")
    reap(table, record)
    assert not record.is_drained()
    os.killpg(record.pid, signal.SIGKILL)
    wait_until(record.is_drained)


def test_end_is_written_whole(table: Table, short_tmp: Path) -> None:
    """The end is a JSON file in the command's folder, which is made if needed."""
    folder = short_tmp / "p" / "x"
    record = start(table, "exit 3", folder=os.fsencode(folder))
    reap(table, record)
    record.write_exit()
    assert record.recorded
    assert os.listdir(folder) == ["exit"]
    assert json.loads((folder / "exit").read_bytes()) == {
        "id": "p",
        "pid": record.pid,
        "started_at": 1.0,
        "status": 3 << 8,
        "rusage": {"user": 0.5},
        "ended_at": 2.0,
        "released": True,
        "inner": False,
    }


def test_end_that_cannot_be_written_is_kept(table: Table, short_tmp: Path) -> None:
    """Where the folder cannot be made the record stays unrecorded."""
    (short_tmp / "file").touch()
    record = start(table, "exit 3", folder=os.fsencode(short_tmp / "file" / "x"))
    reap(table, record)
    with pytest.raises(NotADirectoryError):
        record.write_exit()
    assert not record.recorded


def test_a_grandchild_is_nobody(table: Table) -> None:
    """A reaped process that is no command changes nothing; an unknown id is an error by name."""
    assert table.ended(2**22 - 1, 0, {}, 1.0) is None
    with pytest.raises(SpawnError) as refused:
        table.find("nobody")
    assert refused.value.reason == "unknown_process"


def test_names(table: Table) -> None:
    """A held descriptor replaces one of its name; closing a name twice is no error."""
    record = start(table, "exit 0")
    first, second = os.dup(0), os.dup(0)
    record.hold("in", first)
    record.hold("in", second)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(first)
    record.close_name("in")
    record.close_name("in")
    assert "in" not in record.description("proc")["names"]
    assert table.has_running
