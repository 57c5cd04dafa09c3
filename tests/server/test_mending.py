"""What others take away from a living server: folders, files, sockets, locks."""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.api import aconnect
from execzmq.errors import Conflict
from execzmq.process.journal import Journal
from execzmq.server import app
from execzmq.server.app import Server
from execzmq.server.locks import FolderLock
from execzmq.server.state import StateFolder
from execzmq.settings import Settings
from execzmq.types.backend import ExecBackend
from tests.commands import all_events, assert_seqs_whole, end_of, output_of, words
from tests.factories import open_server
from tests.lives import lives
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look far more often than each second."""
    monkeypatch.setattr(app, "_TICK", 0.02)


@contextlib.asynccontextmanager
async def server_and_client() -> AsyncIterator[tuple[Server, ExecBackend]]:
    """Have a server, a client that was there before all else, and a process `p` that says what it reads."""
    from execzmq.client.remote import RemoteBackend

    async with open_server() as server:
        backend = await RemoteBackend.open(server.info)
        try:
            await backend.start(words("cat", process_id="p", stdin="pipe"))
            yield server, backend
        finally:
            await backend.aclose()


async def _until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, 10.0)


async def _new_client_works() -> None:
    async with deadline(10), aconnect("t") as client:
        assert (await client.run(["echo", "x"])).stdout == b"x\n"


async def _process_goes_on(backend: ExecBackend) -> None:
    process = await backend.attach("p")
    await process.write(b"still here", end=True)
    events = await all_events(process)
    assert_seqs_whole(events)
    assert output_of(events) == b"still here"
    assert end_of(events).exit_code == 0


async def _looked(server: Server) -> None:
    """Wait until the server has looked three times more."""
    looks, look = [0], server._mender.look

    def count() -> None:
        look()
        looks[0] += 1

    server._mender.look = count  # type: ignore[method-assign]  # it is called by that name each time
    await _until(lambda: looks[0] >= 3)
    server._mender.look = look  # type: ignore[method-assign]  # as it was


# Sockets


async def test_sockets_that_are_gone_are_bound_anew() -> None:
    """As by something that tidies the runtime folder; clients that are connected notice nothing."""
    async with server_and_client() as (server, backend):
        folder = Path(server.info.ip).parent
        shutil.rmtree(folder)
        await _until(lambda: len(list(folder.glob("s-*"))) == 5)
        await _new_client_works()
        assert await backend._connection.heart_beats()  # type: ignore[attr-defined]  # a RemoteBackend
        await _process_goes_on(backend)
        with pytest.raises(Conflict):
            StateFolder("t")
    assert not list(folder.glob("s-*"))


async def test_one_socket_after_the_other() -> None:
    """Each of the five, several times; no descriptor is left of the old ones."""
    async with server_and_client() as (server, backend):
        paths = sorted(Path(server.info.ip).parent.glob("s-*"))
        assert len(paths) == 5
        await _new_client_works()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            for path in paths:
                path.unlink()
                await _until(path.exists)
            await _new_client_works()
        await _until(lambda: len(os.listdir("/proc/self/fd")) <= before)
        await _process_goes_on(backend)


# Connection files


def _spoil(path: Path, how: str) -> None:
    if how == "removed":
        path.unlink()
    elif how == "folder":
        shutil.rmtree(path.parent)
    elif how == "open":
        path.chmod(0o644)
    elif how == "dead":
        path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 1 << 22, "epoch": "e"}))
    else:
        path.write_bytes({"truncated": b"", "junk": os.urandom(100), "cut": path.read_bytes()[:50]}[how])


@pytest.mark.parametrize("how", ["removed", "folder", "open", "dead", "truncated", "junk", "cut"])
async def test_connection_files_are_written_anew(how: str) -> None:
    """Whatever became of them, they say again what they said."""
    async with server_and_client() as (server, backend):
        state, jupyter = connection.state_folder("t") / "connection.json", connection.runtime_file("t")
        _spoil(jupyter, how)
        if how != "folder":
            _spoil(state, how)
        for path in (state, jupyter):
            await _until(partial(_is_said, path, server.info))
            assert path.stat().st_mode & 0o777 == 0o600
        await _new_client_works()
        await _process_goes_on(backend)
    assert not state.exists()
    assert not jupyter.exists()


def _is_said(path: Path, info: connection.ConnectionInfo) -> bool:
    return _says(path) == info


def _says(path: Path) -> connection.ConnectionInfo | None:
    try:
        return connection.load(path)
    except ConnectionError:
        return None


@pytest.mark.parametrize("change", [{"pid": os.getppid()}, {"host": "another", "pid": 1 << 22}])
async def test_the_file_of_another_server_stays(change: dict[str, object]) -> None:
    """Of a living one, as two homes may share Jupyter's folder, or of one on another host."""
    async with open_server() as server:
        path = connection.runtime_file("t")
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        text = path.read_text()
        (connection.state_folder("t") / "connection.json").unlink()
        await _until((connection.state_folder("t") / "connection.json").exists)
        assert path.read_text() == text
        assert server.info.pid == os.getpid()


async def test_no_file_is_written_anew_at_the_end() -> None:
    """A server that is told to end takes its files away for good."""
    async with open_server() as server:
        server.stop()
        assert not (connection.state_folder("t") / "connection.json").exists()
        await asyncio.sleep(0)
    assert not (connection.state_folder("t") / "connection.json").exists()


# The state


async def test_a_lock_that_was_removed_is_made_anew() -> None:
    """And no other server can take the name meanwhile."""
    async with server_and_client() as (server, backend):
        lock = connection.state_folder("t") / "lock"
        lock.unlink()
        with pytest.raises(Conflict):
            StateFolder("t")
        await _until(lambda: lock.exists() and lock.read_text() == f"{os.getpid()}\n")
        with pytest.raises(Conflict, match=str(os.getpid())):
            StateFolder("t")
        await _process_goes_on(backend)
        assert server.info == _says(connection.state_folder("t") / "connection.json")


def test_a_state_folder_that_was_removed_is_made_anew(state_home: Path) -> None:
    """With the same key; a command that ran goes on, also under the next server after a crash."""
    with lives() as server:
        key = server.now.info.key
        with server.now.client() as client:
            process = client.start(["cat"], process_id="p", stdin=True)
            shutil.rmtree(state_home)
            wait_until((server.now.state / "connection.json").exists, 10.0)
            assert server.now.info.key == key
            process.write(b"one ")
            assert client.run(["echo", "x"]).stdout == b"x\n"
            server.die()
            wait_until((server.now.state / "keeper.sock").exists)
            server.begin()
            process.write(b"two")
            process.close_stdin()
            assert process.wait().exit_code == 0
        assert server.now.info.key == key


@pytest.mark.parametrize("how", ["removed", "replaced", "truncated", "cut"])
def test_a_journal_that_is_not_whole_is_written_anew(how: str) -> None:
    """Before the next server needs it: what ran and what has ended is known to that after a crash."""
    with lives() as server, server.now.client() as client:
        journal = server.now.state / "journal"
        over = client.run(["sh", "-c", "echo x; exit 3"], process_id="over")
        process = client.start(["cat"], process_id="p", stdin=True)
        whole = journal.stat().st_size
        if how in ("removed", "replaced"):
            journal.unlink()
        if how == "replaced":
            journal.write_bytes(b"x" * 10_000)
        if how in ("truncated", "cut"):
            os.truncate(journal, 0 if how == "truncated" else whole - 10)
        spoilt = journal.stat().st_ino if how != "removed" else 0
        wait_until(lambda: journal.exists() and journal.stat().st_ino != spoilt, 10.0)
        server.die()
        server.begin()
        assert {info.process_id for info in client.processes()} == {"over", "p"}
        assert client.attach("over").wait().exit_code == over.returncode == 3
        process.write(b"still here")
        process.close_stdin()
        assert process.wait().exit_code == 0


async def test_folders_that_are_another_servers_by_now(caplog: pytest.LogCaptureFixture) -> None:
    """The first one says so, goes on for its clients, and touches nothing there."""
    from execzmq.client.remote import RemoteBackend

    server = await Server.open("t", Settings(shutdown_grace=0.0))  # it does not look before it is run
    try:
        backend = await RemoteBackend.open(server.info)
        process = await backend.start(words("cat", process_id="p", stdin="pipe"))
        await process.write(b"connected")
        folders = (connection.state_folder("t"), Path(server.info.ip).parent)
        for folder in folders:
            folder.rename(folder.with_name("before"))
        second = StateFolder("t")
        second.key()
        theirs = Journal(folders[0] / "journal")
        theirs.replay()
        theirs.close()
        folders[0].with_name("before").joinpath("p").rename(folders[0] / "p")  # the disk itself is well
        before = _contents(*folders)
        running = asyncio.ensure_future(server.run())
        await _until(lambda: "goes on for those" in caplog.text)
        await process.write(b"x", end=True)
        assert (await process.wait("exited", 10.0)).result is not None
        server._backend.journal.is_behind = True
        server._backend._tidy()
        await _looked(server)
        assert _contents(*folders) == before
        server.stop()
        await running
        await backend.aclose()
    finally:
        await server.close()
    assert _contents(*folders) == before
    second.close()


def _contents(*folders: Path) -> dict[str, bytes]:
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


async def test_what_cannot_be_made_anew_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And tried again: the disk may have room later."""
    async with open_server() as server:
        path = connection.runtime_file("t")
        folder = path.parent
        shutil.rmtree(folder)
        folder.write_text("in the way")
        await _until(lambda: "cannot be made anew" in caplog.text)
        await _looked(server)
        assert caplog.text.count("cannot be made anew") == 1
        folder.unlink()
        await _until(path.exists)


def test_the_lock_is_given_back_whole(short_tmp: Path) -> None:
    """After a mend, too."""
    lock = FolderLock(short_tmp)
    (short_tmp / "lock").unlink()
    lock.mend()
    lock.close()
    FolderLock(short_tmp).close()
