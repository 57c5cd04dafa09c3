"""A state folder whose last records a power cut has taken, under another boot of the machine."""

import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from execzmq.backends import restore
from execzmq.process.index import RECORD_SIZE
from execzmq.types.events import Gap, Output, Started
from tests.backends.lives import last_life, life
from tests.commands import all_events, assert_seqs_whole, end_of, is_alive, only, shell, until_output
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SAID = b"one\ntwo\n"


async def before(folder: Path) -> dict[str, int]:
    """Leave one command that has ended and one that runs when the power goes; return their instances."""
    async with life(folder) as backend:
        ended = await backend.start(shell("echo one; sleep 0.01; echo two; exit 3", process_id="ended"))
        await all_events(ended)
        running = await backend.start(
            shell("echo one; sleep 0.01; echo two; exec sleep 60", process_id="running")
        )
        pid = only(await until_output(running, SAID), Started).pid
        keeper = backend.keeper.pid
    for victim in (keeper, pid):
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(keeper))
    return {"ended": ended.instance, "running": running.instance}


def newest(folder: Path, process_id: str, prefix: str) -> Path:
    """Return a file of a log."""
    (found,) = (folder / "p").glob(f"{process_id}.*/{prefix}.*")
    return found


FILES: dict[str, tuple[Callable[[Path], Path], int]] = {
    "journal": (lambda folder: folder / "journal", 0),
    "index of the ended": (lambda folder: newest(folder, "ended", "idx"), 2 * RECORD_SIZE),
    "index of the running": (lambda folder: newest(folder, "running", "idx"), 2 * RECORD_SIZE),
    "data of the ended": (lambda folder: newest(folder, "ended", "out"), len(SAID)),
    "data of the running": (lambda folder: newest(folder, "running", "out"), len(SAID)),
}


def cuts(path: Path, most: int) -> list[int]:
    """Return where to cut a file: not at every byte, since each takes the start of a server."""
    size = path.stat().st_size
    step = 13 if most else max(1, size // 8)
    return sorted({*range(max(0, size - (most or size)), size, step), size - 1, size})


@pytest.mark.parametrize("name", FILES)
async def test_every_log_without_its_end_has_a_new_instance(
    folder: Path,
    short_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    """However much is missing: a server begins, says what it repaired, and what is there is as it was."""
    first = short_tmp / "first"
    first.mkdir(0o700)
    instances = await before(first)
    monkeypatch.setattr(restore, "boot_id", lambda: "another")
    find, most = FILES[name]
    for number, end in enumerate(cuts(find(first), most)):
        copy = short_tmp / str(number)
        shutil.copytree(first, copy, ignore=shutil.ignore_patterns("keeper.sock"))
        os.truncate(find(copy), end)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with last_life(copy) as backend:
                for info in await backend.list_processes():
                    process = await backend.attach(info.process_id)
                    events = await all_events(process)
                    assert_seqs_whole(events)
                    for event in events:
                        if isinstance(event, Output):
                            assert SAID[event.offset : event.offset + len(event.data)] == event.data
                    result = end_of(events)
                    lost = sum(event.bytes for event in events if isinstance(event, Gap))
                    said = sum(len(event.data) for event in events if isinstance(event, Output))
                    assert said + lost == len(SAID) or info.process_id == "running" or name == "journal"
                    is_known = result.exit_code == 3
                    assert is_known or process.instance != instances[info.process_id]
                    if info.process_id == "running":
                        assert process.instance != instances["running"]
                        assert "running" in caplog.text
        shutil.rmtree(copy)
