"""Logs keep within the budgets, finished processes go in time, nothing unreceived is dropped."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from execzmq.process import housekeeping
from execzmq.process.housekeeping import Housekeeping
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess
from execzmq.process.table import ProcessTable
from execzmq.settings import FINISHED_KEPT, MIB, Settings
from tests.process.logs import add_output
from tests.process.processes import Notes, make_process


class Rig:
    """A table with its housekeeping."""

    def __init__(self, folder: Path, disk_budget: int) -> None:
        self.folder = folder
        self.table = ProcessTable()
        self.forgotten: list[str] = []
        self.tidied = 0
        settings = Settings(disk_budget=disk_budget)
        self.housekeeping = Housekeeping(self.table, settings, folder, self._forget, self._tidy)

    def _forget(self, process: ManagedProcess) -> None:
        self.table.remove(process)
        process.log.remove()
        self.forgotten.append(process.process_id)

    def _tidy(self) -> None:
        self.tidied += 1

    def add(
        self, process_id: str, size: int, life: Life = Life.RUNNING, ended_at: float = 0.0, **more: Any
    ) -> ManagedProcess:
        """Add a process with so much output, and count it."""
        process = make_process(self.folder, Notes(), process_id=process_id, **more)
        process.life = life
        process.ended_on = asyncio.get_running_loop().time() - 100_000.0 + ended_at
        self.table.add(process)
        if size:
            add_output(process.log, b"x" * size)
        self.housekeeping.grown(size)
        return process

    async def grown(self, size: int) -> None:
        """Count bytes, and let the loop do what goes a little at a time."""
        self.housekeeping.grown(size)
        for _ in range(100):
            await asyncio.sleep(0)

    async def settled(self) -> None:
        """Let it go on, a little in each turn of the loop, until it is done."""
        for _ in range(1000):
            if self.housekeeping._next is None:
                return
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close everything."""
        self.housekeeping.close()
        for process in self.table:
            process.log.close()


async def test_within_the_budget_nothing_goes(short_tmp: Path) -> None:
    """Where there is room, running processes keep more than their budget."""
    rig = Rig(short_tmp, 64 * MIB)
    process = rig.add("p", 8 * MIB, budget=MIB)
    assert process.log.dropped == {"stdout": 0, "stderr": 0}
    rig.close()


async def test_what_is_beyond_budgets_goes_first(short_tmp: Path) -> None:
    """When the disk budget is passed, the middle of the logs goes, and no process is forgotten for it."""
    rig = Rig(short_tmp, 8 * MIB)
    process = rig.add("p", 16 * MIB, budget=MIB)
    await rig.grown(0)
    assert process.log.dropped["stdout"] >= 8 * MIB
    assert process.log.disk_bytes <= 8 * MIB
    assert not rig.forgotten
    rig.close()


async def test_room_is_made_a_little_at_a_time_c17(short_tmp: Path) -> None:
    """Of very many small files few go in one turn of the loop, so that requests are answered in between."""
    rig = Rig(short_tmp, 2 * MIB)
    process = rig.add("p", 32 * MIB, budget=MIB)
    first = process.log.dropped["stdout"]
    assert 0 < first <= 8 * MIB
    await rig.settled()
    assert process.log.dropped["stdout"] > 3 * first
    assert process.log.disk_bytes <= 2 * MIB
    rig.close()


async def test_oldest_finished_logs_go(short_tmp: Path) -> None:
    """Then finished logs go whole, the oldest first."""
    rig = Rig(short_tmp, 8 * MIB)
    for at in range(6):
        rig.add(str(at), 2 * MIB, Life.CLOSED, float(at), budget=4 * MIB)
        await rig.grown(4 * MIB)
    assert rig.forgotten == [str(at) for at in range(len(rig.forgotten))]
    assert rig.forgotten
    assert sum(process.log.disk_bytes for process in rig.table) <= 8 * MIB
    rig.close()


async def test_unreceived_is_never_dropped(short_tmp: Path) -> None:
    """What its starter has not told as received stays, however short the room; then writers wait earlier."""
    rig = Rig(short_tmp, 2 * MIB)
    process = rig.add("p", 8 * MIB, budget=4 * MIB, backpressure="pause")
    await rig.grown(64 * MIB)
    assert process.log.dropped["stdout"] == 0
    backlog = process.streams.backlog
    assert backlog is not None
    later = rig.add("q", 0, budget=4 * MIB, backpressure="pause").streams.backlog
    assert later is not None
    await rig.grown(64 * MIB)
    assert [backlog.is_short, later.is_short] == [True, True]
    process.streams.told(process.log.last_seq)
    await rig.grown(64 * MIB)
    assert process.log.dropped["stdout"] > 0
    assert [backlog.is_short, later.is_short] == [False, False]
    rig.close()


async def test_a_gone_starter_protects_nothing(short_tmp: Path) -> None:
    """Of a starter of which nothing is heard the output may be dropped."""
    rig = Rig(short_tmp, 2 * MIB)
    process = make_process(short_tmp, Notes(), budget=4 * MIB, backpressure="pause")
    process.life = Life.RUNNING
    process.streams.starter_gone(True)
    rig.table.add(process)
    add_output(process.log, b"x" * 8 * MIB)
    await rig.grown(64 * MIB)
    assert process.log.dropped["stdout"] > 0
    rig.close()


async def test_finished_processes_go(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest finished ones stay in any case; of the others go those whose time is over."""
    monkeypatch.setattr(housekeeping, "_FINISHED_DELAY", 0.0)
    rig = Rig(short_tmp, 64 * MIB)
    for at in range(FINISHED_KEPT + 3):
        rig.add(str(at), 0, Life.CLOSED, float(at))
    rig.add("run", 0)
    rig.housekeeping.ended()
    process = rig.table.require("run")
    await process.wait_change(0.05)
    assert rig.forgotten == ["0", "1", "2"]
    assert rig.tidied == 1
    rig.close()
