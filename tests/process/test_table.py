"""Which processes there are, and who may take an id or a name."""

from pathlib import Path

import pytest

from execzmq.errors import Conflict, InvalidRequest, LimitExceeded, ProcessNotFound
from execzmq.process import table
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess
from execzmq.process.table import ProcessTable, check_word
from tests.process.processes import Notes, make_process


def add(
    processes: ProcessTable, folder: Path, process_id: str, life: Life = Life.RUNNING, **more: object
) -> ManagedProcess:
    """Add a process in some state."""
    process = make_process(folder, Notes(), process_id=process_id, **more)
    process.life = life
    processes.add(process)
    return process


@pytest.mark.parametrize("word", ["a", "A-Z_09", "x" * 64])
def test_words(word: str) -> None:
    """Ids and names have 1 to 64 of a small alphabet."""
    check_word(word, "name")


@pytest.mark.parametrize("word", ["", "a b", "a.b", "ä", "x" * 65, "a\n", "/"])
def test_no_words(word: str) -> None:
    """Anything else is refused and named."""
    with pytest.raises(InvalidRequest) as caught:
        check_word(word, "name")
    assert "name" in caught.value.details["fields"]


async def test_id_is_taken_until_forgotten(short_tmp: Path) -> None:
    """The id of an ended process is taken too; that of a failed one is free."""
    processes = ProcessTable()
    add(processes, short_tmp, "run")
    closed = add(processes, short_tmp, "end", Life.CLOSED)
    add(processes, short_tmp, "bad", Life.FAILED)
    for taken in ("run", "end"):
        with pytest.raises(Conflict):
            processes.check_new(taken, None)
    processes.check_new("bad", None)
    processes.remove(closed)
    processes.check_new("end", None)


async def test_failed_one_is_replaced(short_tmp: Path) -> None:
    """Whoever takes the id of a failed one gets it back to be dropped, and is the newest."""
    processes = ProcessTable()
    bad = add(processes, short_tmp, "p", Life.FAILED)
    add(processes, short_tmp, "q")
    again = make_process(short_tmp, Notes(), process_id="p", instance=2)
    assert processes.add(again) is bad
    processes.remove(bad)
    assert [process.process_id for process in processes] == ["q", "p"]
    assert processes.require("p") is again


async def test_names(short_tmp: Path) -> None:
    """A name is unique among the living; of the ended the newest is found by it; an id goes first."""
    processes = ProcessTable()
    first = add(processes, short_tmp, "1", name="n")
    with pytest.raises(Conflict) as caught:
        processes.check_new("2", "n")
    assert caught.value.details["process_id"] == "1"
    assert processes.find("n") is first
    first.life = Life.CLOSED
    processes.ended(first)
    processes.check_new("2", "n")
    second = add(processes, short_tmp, "2", Life.CLOSED, name="n")
    assert processes.find("n") is second
    named = add(processes, short_tmp, "n")
    assert processes.find("n") is named
    with pytest.raises(Conflict, match="is the id of another"):
        processes.check_new("3", "n")
    with pytest.raises(ProcessNotFound):
        processes.find("m")


async def test_living(short_tmp: Path) -> None:
    """What is not over is counted as alive."""
    processes = ProcessTable()
    first = add(processes, short_tmp, "1")
    add(processes, short_tmp, "2", Life.CLOSED)
    assert (len(processes), processes.alive, processes.living()) == (2, 1, [first])
    processes.ended(first)
    assert processes.alive == 0


async def test_too_many(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound on living processes, told with its value."""
    monkeypatch.setattr(table, "MOST_ALIVE", 1)
    processes = ProcessTable()
    add(processes, short_tmp, "1")
    with pytest.raises(LimitExceeded) as caught:
        processes.check_new("2", None)
    assert caught.value.details["limit"] == 1


def test_new_ids_differ() -> None:
    """Ids that are made are words and never the same."""
    processes = ProcessTable()
    made = {processes.new_id() for _ in range(100)}
    assert len(made) == 100
    for word in made:
        check_word(word, "process_id")
