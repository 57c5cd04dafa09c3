"""A folder that was emptied under a backend."""

import shutil
from pathlib import Path

from execzmq.backends.emptied import fill_again
from execzmq.backends.local import LocalBackend
from execzmq.process.journal import Journal
from execzmq.settings import Settings
from tests.commands import all_events, end_of, words


async def test_the_next_server_finds_what_runs(short_tmp: Path) -> None:
    """In the journal; a log goes on in a new folder."""
    folder = short_tmp / "s"
    folder.mkdir()
    backend = await LocalBackend.open(folder, Settings())
    try:
        process = await backend.start(words("cat", process_id="p", stdin="pipe"))
        shutil.rmtree(folder)
        folder.mkdir()
        fill_again(backend)
        journal = Journal(folder / "journal")
        assert [record["process_id"] for record in journal.replay()] == ["p"]
        journal.close()
        assert len(list((folder / "p").iterdir())) == 1
        await process.write(b"x", end=True)
        assert end_of(await all_events(process)).exit_code == 0
    finally:
        await backend.end_all("test", grace=0.0)
        await backend.aclose()
