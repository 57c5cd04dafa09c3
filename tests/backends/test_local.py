"""What only the backend of this Python can show: its keeper, its folder, the end of it."""

import asyncio
import contextlib
import errno
import os
import signal
from pathlib import Path

import pytest

from execzmq.backends import closing, keeping, starting
from execzmq.backends.local import LocalBackend
from execzmq.backends.local_process import LocalProcess
from execzmq.errors import (
    CommandNotFound,
    Conflict,
    InstanceChanged,
    InvalidRequest,
    InvalidState,
    ProcessNotFound,
    ServerLost,
    SpawnFailed,
)
from execzmq.keeper.handover import SpawnedProcess
from execzmq.process.journal import Journal
from execzmq.types.events import Failed
from tests.commands import (
    all_events,
    assert_seqs_whole,
    end_of,
    is_alive,
    kinds_of,
    only,
    output_of,
    shell,
    until_output,
    words,
)
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow


async def test_folder_is_removed() -> None:
    """A private backend leaves nothing on disk and no process."""
    backend = await LocalBackend.open_private()
    process = await backend.start(shell("echo $$; sleep 60 & wait"))
    pid = int(output_of(await until_output(process, b"\n")))
    folder = backend.folder
    await backend.aclose()
    assert not is_alive(pid)
    assert not folder.exists()
    with pytest.raises(InvalidState):
        await backend.start(shell("true"))


async def test_starts_under_way_when_it_closes() -> None:
    """Whoever waits for a start when the backend closes gets an answer."""
    backend = await LocalBackend.open_private()
    starts = [asyncio.ensure_future(backend.start(words("sleep", "60"))) for _ in range(10)]
    await asyncio.sleep(0)
    await backend.aclose()
    async with deadline(5):
        results = await asyncio.gather(*starts, return_exceptions=True)
    assert all(isinstance(result, LocalProcess | ServerLost) for result in results)


async def test_a_keeper_that_is_stopped_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start under way is given up and answered, and the keeper is killed: it would not end by itself."""
    monkeypatch.setattr(closing, "LAST_STARTS", 0.05)
    monkeypatch.setattr(keeping, "_QUIT_SECONDS", 0.05)
    backend = await LocalBackend.open_private()
    keeper = backend.keeper.pid
    os.kill(keeper, signal.SIGSTOP)
    starting = asyncio.ensure_future(backend.start(words("sleep", "60")))
    await asyncio.sleep(0)
    async with deadline(10):
        await backend.aclose()
        with pytest.raises(ServerLost, match="does not answer"):
            await starting
    assert not is_alive(keeper)


async def test_cancelled_start_goes_on() -> None:
    """Cancelling the wait for a start does not undo it."""
    backend = await LocalBackend.open_private()
    try:
        starting = asyncio.ensure_future(backend.start(shell("echo ok", process_id="p")))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert output_of(await all_events(await backend.attach("p"))) == b"ok\n"
    finally:
        await backend.aclose()


async def test_what_is_asked_while_it_starts_waits() -> None:
    """Signals, ends and input for a command that is being started reach it once it runs."""
    backend = await LocalBackend.open_private()
    try:
        for work in ("signal", "end", "write"):
            process, ready, _ = backend.begin(shell("read x; echo $x", stdin="pipe", process_id=work), "s")
            assert ready is not None
            handle = LocalProcess(backend, process, "s")
            if work == "signal":
                await handle.signal("KILL")
            elif work == "end":
                await handle.terminate(0.0)
            else:
                await handle.write(b"hi\n")
            events = await all_events(handle)
            assert kinds_of(events)[0] == "started"
            assert end_of(events).signal == (None if work == "write" else 9)
    finally:
        await backend.aclose()


async def started_at_last(backend: LocalBackend) -> LocalProcess:
    """Start a command as soon as there is a keeper again."""
    while True:
        with contextlib.suppress(ServerLost):
            return await backend.start(shell("echo again"))


async def test_keeper_that_dies() -> None:
    """Starts under way fail by name; another keeper takes the next, and what ran goes on."""
    backend = await LocalBackend.open_private()
    try:
        process = await backend.start(shell("echo up; read x; echo $x; exit 7", stdin="pipe"))
        await until_output(process, b"up")
        os.kill(backend.keeper.pid, signal.SIGKILL)
        starts = [asyncio.ensure_future(backend.start(shell("true"))) for _ in range(3)]
        async with deadline(10):
            results = await asyncio.gather(*starts, return_exceptions=True)
        assert all(isinstance(result, ServerLost) for result in results)
        async with deadline(10):
            assert output_of(await all_events(await started_at_last(backend))) == b"again\n"
        await process.write(b"on\n", end=True)
        events = await all_events(process)
        assert_seqs_whole(events)
        assert output_of(events) == b"up\non\n"
        assert (end_of(events).cause, end_of(events).exit_code) == ("exited", 7)
    finally:
        await backend.aclose()


async def test_old_handle_of_a_replaced_failure() -> None:
    """A handle of a failed start whose id was given again says so."""
    backend = await LocalBackend.open_private()
    try:
        with pytest.raises(CommandNotFound):
            await backend.start(words("/no/such", process_id="p"))
        old = await backend.attach("p")
        assert only(await all_events(old), Failed).seq == 1
        await all_events(await backend.start(shell("true", process_id="p")))
        with pytest.raises(InstanceChanged):
            await old.read()
    finally:
        await backend.aclose()


async def test_a_command_whose_streams_cannot_be_taken_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has asked for it gets an answer, nothing of it is left, and the next start is like any other."""

    def refuse(_backend: object, _process: object, spawned: SpawnedProcess) -> None:
        spawned.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    backend = await LocalBackend.open_private()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(starting, "connect_streams", refuse)
            async with deadline(10):
                with pytest.raises(SpawnFailed, match="Too many open files"):
                    await backend.start(words("sleep", "60", process_id="p"))
        assert only(await all_events(await backend.attach("p")), Failed).seq == 1
        await until_alone(backend.keeper.pid)
        await all_events(await backend.start(shell("true", process_id="p")))
    finally:
        await backend.aclose()


async def until_alone(pid: int) -> None:
    """Wait until a process has no children."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    async with deadline(10):
        while await asyncio.to_thread(children.read_text):
            pass


async def test_failing_start_in_parallel_c64() -> None:
    """The same failing start, in parallel, fails for everybody; the id is free afterwards."""
    backend = await LocalBackend.open_private()
    try:
        params = words("/no/such", process_id="p")
        starts = [backend.start(params) for _ in range(4)]
        results = await asyncio.gather(*starts, return_exceptions=True)
        assert all(isinstance(result, CommandNotFound) for result in results)
        assert len(await backend.list_processes()) == 1
        await backend.start(shell("true", process_id="p"))
    finally:
        await backend.aclose()


async def test_other_start_while_it_starts_c64() -> None:
    """Another command under an id that is being started is refused."""
    backend = await LocalBackend.open_private()
    try:
        first = asyncio.ensure_future(backend.start(shell("true", process_id="p")))
        await asyncio.sleep(0)
        with pytest.raises(Conflict):
            await backend.start(shell("false", process_id="p"))
        await first
    finally:
        await backend.aclose()


async def test_keyboard_of_another_session() -> None:
    """While one session has the keyboard others neither type nor resize, until they take it over."""
    backend = await LocalBackend.open_private()
    try:
        process = await backend.start(words("cat", tty=True, tty_echo=False), "a")
        other = await backend.attach(process.process_id, "b")
        await process.claim_keyboard()
        for work in (other.write(b"x"), other.resize(10, 10), other.claim_keyboard()):
            with pytest.raises(Conflict):
                await work
        await other.release_keyboard()
        assert (await process.info()).keyboard == "a"
        await other.claim_keyboard(take_over=True)
        with pytest.raises(Conflict):
            await process.write(b"x")
        await other.write(b"ok\n", end=True)
        assert output_of(await all_events(process)) == b"ok\r\n"
    finally:
        await backend.aclose()


async def test_forget_while_others_hold_the_streams(short_tmp: Path) -> None:
    """What holds the streams of a forgotten process is read on, and neither blocked nor broken."""
    flag, done = short_tmp / "flag", short_tmp / "done"
    job = f"(while [ ! -e {flag} ]; do sleep 0.02; done; head -c 300000 /dev/zero && echo ok >{done}) &"
    backend = await LocalBackend.open_private()
    try:
        process = await backend.start(shell(f"{job} exit 0", process_id="p", drain_limit=0.0))
        await all_events(process)
        await process.forget()
        with pytest.raises(ProcessNotFound):
            await process.info()
        again = await backend.start(shell("echo new", process_id="p"))
        assert output_of(await all_events(again)) == b"new\n"
        flag.touch()
        await asyncio.to_thread(wait_until, done.exists)
    finally:
        await backend.aclose()


async def test_data_and_a_terminal() -> None:
    """Data for stdin and a terminal exclude each other; nothing is begun."""
    backend = await LocalBackend.open_private()
    try:
        with pytest.raises(InvalidRequest):
            await backend.start(words("cat", tty=True, stdin="data", stdin_data=b"x"))
        assert await backend.list_processes() == []
    finally:
        await backend.aclose()


def _full(journal: Journal, record: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_start_that_cannot_be_written_down_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a start fails by name; nothing of it stays, and its id is free when there is room."""
    async with contextlib.aclosing(await LocalBackend.open_private()) as backend:
        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", _full)
            with pytest.raises(SpawnFailed) as caught:
                await backend.start(words("cat", process_id="p", stdin="data", stdin_data=b"x"))
        assert caught.value.details["errno"] == errno.ENOSPC
        assert (await backend.list_processes(), len(os.listdir("/proc/self/fd"))) == ([], before)
        assert output_of(await all_events(await backend.start(shell("echo x", process_id="p")))) == b"x\n"


async def test_end_that_cannot_be_written_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a command ends as ever, and can be forgotten; the journal is made good later."""
    async with contextlib.aclosing(await LocalBackend.open_private()) as backend:
        ended = await backend.start(shell("read x; exit 3", stdin="pipe", process_id="p"))
        forgotten = await backend.start(shell("exit 4", process_id="q"))
        await all_events(forgotten)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", _full)
            await ended.write(b"\n")
            assert end_of(await all_events(ended)).exit_code == 3
            await forgotten.forget()
        was_behind = backend.journal.is_behind
        backend._tidy()
        assert (was_behind, backend.journal.is_behind) == (True, False)
        assert [(r["kind"], r["process_id"]) for r in backend.journal.replay()] == [
            ("start", "p"),
            ("end", "p"),
        ]
