"""What a new life of a backend makes of what an earlier one has left."""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq.backends import restore
from execzmq.errors import CommandNotFound, Conflict, ProcessNotFound
from execzmq.process.lifecycle import Life
from execzmq.types.events import Closed, Exited, Failed, Gap, Notice, Started
from tests.backends.lives import last_life, life
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    exit_of,
    is_alive,
    kinds_of,
    only,
    output_of,
    shell,
    until_output,
    words,
)
from tests.disk import fill_disk
from tests.support import ms, wait_until

pytestmark = pytest.mark.slow


def damage_journal(folder: Path, *lines: int) -> None:
    """Damage some lines in its middle."""
    path = folder / "journal"
    found = path.read_bytes().splitlines(keepends=True)
    for line in lines:
        found[line] = found[line].replace(b"kind", b"kinb")
    path.write_bytes(b"".join(found))


def drop_last_journal_line(folder: Path) -> None:
    """Do as a kill between an event and its line in the journal."""
    journal = folder / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))


async def test_running_command_goes_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A running command is taken over: its events go on without hole or repeat, its stdin can be written."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p", name="n"))
        await process.write(b"one")
        await until_output(process, b"one")
    caplog.set_level("INFO", "execzmq")
    async with last_life(folder) as backend:
        assert "took over 1 running and 0 finished commands of an earlier life" in caplog.messages
        again = await backend.attach("n")
        assert again.instance == process.instance
        await again.write(b"two", end=True)
        events = await all_events(again)
        assert kinds_of(events) == ["started", "output", "exited", "closed"]
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        assert output_of(events) == b"onetwo"
        assert end_of(events).exit_code == 0


async def test_end_in_between_is_known(folder: Path) -> None:
    """A command that ended while nobody was there has its status, its last output and its own time of end."""
    flag = folder / "flag"
    async with life(folder) as backend:
        process = await backend.start(
            shell(f"echo up; while [ ! -e {flag} ]; do sleep 0.02; done; echo late; exit 3", process_id="p")
        )
        pid = only(await until_output(process, b"up"), Started).pid
    flag.touch()
    wait_until(lambda: not is_alive(pid))
    ended_before = flag.stat().st_mtime + 5
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert output_of(events) == b"up\nlate\n"
        assert (end_of(events).exit_code, end_of(events).cause) == (3, "exited")
        assert flag.stat().st_mtime <= end_of(events).ended_at <= ended_before


async def test_silent_end_in_between_is_known(folder: Path) -> None:
    """A command that wrote nothing, and ended while nobody was there, has its status."""
    flag = folder / "flag"
    async with life(folder) as backend:
        process = await backend.start(shell(f"while [ ! -e {flag} ]; do sleep 0.02; done; exit 3"))
        keeper = backend.keeper.pid
    flag.touch()
    wait_until(lambda: not is_alive(keeper))
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach(process.process_id))
        assert kinds_of(events) == ["started", "exited", "closed"]
        assert (end_of(events).exit_code, end_of(events).cause) == (3, "exited")


async def test_exit_that_was_told_is_not_told_again(folder: Path) -> None:
    """Where the exit was told and a job still holds the streams, the next life tells only what follows."""
    flag = folder / "flag"
    job = f"(while [ ! -e {flag} ]; do sleep 0.02; done; echo job) &"
    async with life(folder) as backend:
        process = await backend.start(shell(f"{job} echo main; exit 5", process_id="p"))
        assert (await process.wait("exited", 10.0)).exited
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        info = await again.info()
        assert (info.state, info.pid is not None) == ("exited", True)
        assert info.result is not None
        assert info.result.exit_code == 5
        flag.touch()
        events = await all_events(again)
        assert kinds_of(events) == ["started", "output", "exited", "output", "closed"]
        assert_seqs_whole(events)
        assert output_of(events) == b"main\njob\n"
        told, end = exit_of(events), end_of(events)
        assert (end.exit_code, end.cause, end.ended_at) == (5, "exited", told.ended_at)


async def test_signal_that_was_told_is_kept(folder: Path) -> None:
    """Who asked for the end is known in the next life too."""
    async with life(folder) as backend:
        process = await backend.start(shell("setsid sh -c 'echo $$; exec sleep 60' & wait"))
        job = int(output_of(await until_output(process, b"\n")))
        await process.signal("KILL")
        assert (await process.wait("exited", 10.0)).exited
    async with last_life(folder) as backend:
        again = await backend.attach(process.process_id)
        os.kill(job, signal.SIGKILL)
        events = await all_events(again)
        assert (end_of(events).signal, end_of(events).asked_by) == (9, "client local")


async def test_rest_is_discarded_after_the_drain_limit(folder: Path) -> None:
    """A job that holds the streams of a closed process is read in the next life too, and not blocked."""
    flag, done = folder / "flag", folder / "done"
    job = f"(while [ ! -e {flag} ]; do sleep 0.02; done; head -c 300000 /dev/zero; echo ok >{done}) &"
    async with life(folder) as backend:
        process = await backend.start(shell(f"{job} exit 0", process_id="p", drain_limit=0.0))
        first = await all_events(process)
        assert end_of(first).held_open_by
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        assert await all_events(again) == first
        flag.touch()
        await asyncio.to_thread(wait_until, done.exists)
        assert await all_events(again) == first


async def test_end_without_its_line_in_the_journal(folder: Path) -> None:
    """A kill right after the last event loses nothing: the log knows the end, and it is told once."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo x; exit 4", process_id="p"))
        first = await all_events(process)
    drop_last_journal_line(folder)
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        assert await all_events(again) == first
        info = await again.info()
        assert (info.state, info.result) == ("closed", end_of(first))
        assert backend.table.alive == 0
    async with last_life(folder) as backend:
        assert await all_events(await backend.attach("p")) == first


async def test_silent_ended_command_is_read_from_the_journal(folder: Path) -> None:
    """What never had output needs no file."""
    async with life(folder) as backend:
        process = await backend.start(shell("exit 4", process_id="p"))
        first = await all_events(process)
        assert not backend.table.require("p").log.folder.exists()
    async with last_life(folder) as backend:
        again = await all_events(await backend.attach("p"))
        assert kinds_of(again) == kinds_of(first)
        assert end_of(again) == end_of(first)


async def test_failed_start_stays_failed(folder: Path) -> None:
    """A failed start can be looked at in the next life, and its id is free; what it is given then stays."""
    async with life(folder) as backend:
        with pytest.raises(CommandNotFound):
            await backend.start(words("/no/such", process_id="p"))
    async with life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert only(events, Failed).error["ename"] == "CommandNotFound"
        await all_events(await backend.start(shell("echo ok", process_id="p")))
    async with last_life(folder) as backend:
        assert output_of(await all_events(await backend.attach("p"))) == b"ok\n"
        assert len(await backend.list_processes()) == 1


async def test_forgotten_stays_forgotten(folder: Path) -> None:
    """What was forgotten does not come back, and nothing of it is on disk."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo x", process_id="p"))
        await all_events(process)
        await process.forget()
    async with last_life(folder) as backend:
        with pytest.raises(ProcessNotFound):
            await backend.attach("p")
        assert list((folder / "p").iterdir()) == []


async def test_keeper_that_was_killed(folder: Path) -> None:
    """Without the keeper nobody knows how a command ended; it is said so, and what it wrote is there."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo x; exec sleep 60", process_id="p"))
        pid = only(await until_output(process, b"x"), Started).pid
        keeper = backend.keeper.pid
    for victim in (keeper, pid):
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(keeper))
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert output_of(events) == b"x\n"
        assert kinds_of(events) == ["started", "output", "exited", "closed"]
        result = end_of(events)
        assert (result.cause, result.exit_code, result.signal) == ("server_lost", None, None)


async def test_silent_command_of_a_keeper_that_was_killed(folder: Path) -> None:
    """A command that wrote nothing has been told of as started: it is lost, not failed, and its id taken."""
    async with life(folder) as backend:
        process = await backend.start(words("sleep", "60", process_id="p"))
        info = await process.info()
        keeper = backend.keeper.pid
    assert info.pid is not None
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not is_alive(keeper))
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        events = await all_events(again)
        assert kinds_of(events) == ["started", "exited", "closed"]
        assert (again.instance, end_of(events).cause) == (info.instance, "server_lost")
        with pytest.raises(Conflict):
            await backend.start(shell("echo twice", process_id="p"))
        await again.terminate(0.0)
        wait_until(lambda: not is_alive(info.pid or 0))


async def test_start_that_never_came_to_the_keeper_has_failed(folder: Path) -> None:
    """What is in the journal and was never handed to a keeper that ended in order can be started again."""
    async with life(folder) as backend:
        await all_events(await backend.start(shell("exit 4", process_id="p")))
    drop_last_journal_line(folder)
    async with last_life(folder) as backend:
        assert kinds_of(await all_events(await backend.attach("p"))) == ["failed"]
        assert output_of(await all_events(await backend.start(shell("echo x", process_id="p")))) == b"x\n"


async def test_time_limit_counts_from_the_start(folder: Path) -> None:
    """A time limit that has struck while nobody was there strikes at once."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo x; exec sleep 60", process_id="p", timeout=0.3))
        await until_output(process, b"x")
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert end_of(events).cause == "timed_out"


async def test_a_clock_that_was_set_back_changes_no_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended later is kept longer, whatever the dates say; a time limit does not strike early."""
    async with life(folder) as backend:
        for number in range(3):
            backend.clock = lambda number=number: 1e9 - number * 1e6  # type: ignore[misc]  # as time.time
            await all_events(await backend.start(words("true", process_id=f"p{number}")))
        await until_output(await backend.start(shell("echo x; read x", stdin="pipe", timeout=3600.0)), b"x")
    monkeypatch.setattr("time.time", lambda: 2e9)
    async with last_life(folder) as backend:
        ends = [backend.table.require(f"p{number}").ended_on for number in range(3)]
        assert ends == sorted(ends)
        (running,) = backend.table.living()
        await running.wait_change(0.05)
        assert running.life is Life.RUNNING


async def test_stdin_that_was_accepted_is_fed(folder: Path) -> None:
    """Input that was accepted and not read is read in the next life, every byte once."""
    data = os.urandom(1 << 20)
    async with life(folder) as backend:
        process = await backend.start(shell("kill -STOP $$; cat", stdin="pipe", process_id="p"))
        await process.write(data)
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        await again.signal("CONT")
        await again.write(b"end", end=True)
        assert output_of(await all_events(again)) == data + b"end"


async def test_terminal_goes_on(folder: Path) -> None:
    """A terminal is handed over with its process."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", tty=True, tty_echo=False, process_id="p"))
        await process.write(b"one\n")
        await until_output(process, b"one\r\n")
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        await again.write(b"two\n", end=True)
        events = await all_events(again)
        assert output_of(events) == b"one\r\ntwo\r\n"
        assert [type(event) for event in events[-2:]] == [Exited, Closed]


async def test_damaged_log_has_a_new_instance(folder: Path) -> None:
    """Where bytes that were told are gone no cursor of before fits; what is there can be read."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo one; echo two >&2; exit 3", process_id="p"))
        await all_events(process)
        data = next((folder / "p").glob("p.*/out.*"))
    data.write_bytes(b"on")
    async with life(folder) as backend:
        again = await backend.attach("p")
        assert again.instance != process.instance
        info = await again.info()
        assert (info.state, info.instance) == ("closed", again.instance)
        page = await again.read(0)
        assert page.instance == again.instance
    async with last_life(folder) as backend:
        assert (await backend.attach("p")).instance == again.instance
        await (await backend.attach("p")).forget()
    async with last_life(folder) as backend:
        assert await backend.list_processes() == []


async def test_end_that_the_journal_has_lost(folder: Path) -> None:
    """How it ended is not known, and its instance is new; what stands behind the damage is as before."""
    async with life(folder) as backend:
        lost = await backend.start(shell("exit 4", process_id="lost"))
        await all_events(lost)
        kept = await backend.start(shell("echo x; exit 5", process_id="kept"))
        await all_events(kept)
    damage_journal(folder, 1)
    async with life(folder) as backend:
        again = await backend.attach("lost")
        assert again.instance != lost.instance
        assert end_of(await all_events(again)).cause == "server_lost"
        assert end_of(await all_events(await backend.attach("kept"))).exit_code == 5
        assert (await backend.attach("kept")).instance == kept.instance
        backend._tidy()
    async with last_life(folder) as backend:
        assert backend.journal.damaged == 0
        assert (await backend.attach("lost")).instance == again.instance


async def test_forget_that_the_journal_has_lost(folder: Path) -> None:
    """Whoever has taken the id since then has it, and nothing of the earlier one comes back."""
    async with life(folder) as backend:
        for process_id in ("again", "gone"):
            process = await backend.start(shell("echo old", process_id=process_id))
            await all_events(process)
            await process.forget()
        silent = await backend.start(shell("exit 4", process_id="silent"))
        await all_events(silent)
        await silent.forget()
        for process_id in ("again", "silent"):
            await all_events(await backend.start(shell("echo new; exit 3", process_id=process_id)))
    damage_journal(folder, 2, 5, 8)
    async with last_life(folder) as backend:
        for process_id in ("again", "silent"):
            assert output_of(await all_events(await backend.attach(process_id))) == b"new\n"
        assert len(await backend.list_processes()) == 2
        assert len(list((folder / "p").iterdir())) == 2


async def test_start_that_the_journal_has_lost(folder: Path) -> None:
    """Its id is free, and what it left is not taken for that of the next one."""
    async with life(folder) as backend:
        process = await backend.start(shell("echo old", process_id="p"))
        await all_events(process)
        await all_events(await backend.start(shell("echo other", process_id="other")))
    damage_journal(folder, 0)
    async with last_life(folder) as backend:
        assert [info.process_id for info in await backend.list_processes()] == ["other"]
        again = await backend.start(shell("echo new", process_id="p"))
        assert again.instance != process.instance
        assert output_of(await all_events(again)) == b"new\n"


@pytest.mark.parametrize("how", ["removed", "truncated", "junk"])
async def test_running_commands_that_the_journal_has_lost(
    folder: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The keeper has them: they are listed, read on from any cursor, written to, signalled and ended."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p", cwd=b"/", name="n"))
        await process.write(b"one ")
        before = await until_output(process, b"one ")
        silent = await backend.start(words("sleep", "60", process_id="silent"))
        ended = await backend.start(shell("read x; exit 3", stdin="pipe", process_id="ended"))
        await ended.write(b"x", end=True)
    journal = folder / "journal"
    size = journal.stat().st_size
    journal.unlink()
    if how != "removed":
        journal.write_bytes(b"" if how == "truncated" else os.urandom(size))
    for _ in range(2):
        async with life(folder) as backend:
            infos = {info.process_id: info for info in await backend.list_processes()}
            assert {"p", "silent"} <= set(infos)
            assert (infos["p"].argv, infos["p"].cwd, infos["p"].name) == ((b"cat",), b"/", None)
            assert infos["p"].instance == process.instance
            assert end_of(await all_events(await backend.attach("ended"))).exit_code == 3
            with pytest.raises(Conflict):
                await backend.start(words("cat", stdin="pipe", process_id="p", cwd=b"/", name="n"))
    assert caplog.text.count("the journal has lost the start of p,") == 1
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        await again.write(b"two", end=True)
        events = await all_events(again)
        assert events[: len(before)] == before
        assert (output_of(events), end_of(events).exit_code) == (b"one two", 0)
        late = await backend.attach("silent")
        assert late.instance == silent.instance
        await late.signal("TERM")
        assert end_of(await all_events(late)).signal == signal.SIGTERM


async def test_a_new_instance_outlives_the_journal(folder: Path) -> None:
    """No cursor of before the first loss fits after the second."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p"))
        await process.write(b"one")
        await until_output(process, b"one")
    next((folder / "p").glob("p.*/out.*")).write_bytes(b"on")
    async with life(folder) as backend:
        second = (await backend.attach("p")).instance
    (folder / "journal").unlink()
    async with last_life(folder) as backend:
        assert (await backend.attach("p")).instance not in (process.instance, second)


async def test_machine_that_went_down(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran when the machine went down has an end that nobody knows, and a new instance."""
    async with life(folder) as backend:
        ended = await backend.start(shell("echo x", process_id="ended"))
        await all_events(ended)
        process = await backend.start(shell("echo x; exec sleep 60", process_id="p"))
        pid = only(await until_output(process, b"x"), Started).pid
        keeper = backend.keeper.pid
    for victim in (keeper, pid):
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(keeper))
    monkeypatch.setattr(restore, "boot_id", lambda: "another")
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        assert again.instance != process.instance
        events = await all_events(again)
        assert (output_of(events), end_of(events).cause) == (b"x\n", "server_lost")
        assert (await backend.attach("ended")).instance == ended.instance


STDIN = ("in.",)
"""Files that can be written though the disk is full, so that a test can speak to its commands."""


async def test_degraded_log_has_a_new_instance_x03(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash finds in memory only is gone: no cursor of before fits, and the command goes on."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p"))
        await process.write(b"one\n")
        await until_output(process, b"one\n")
        with monkeypatch.context() as patch:
            fill_disk(patch, spare=STDIN)
            await process.write(b"held\n")
            await until_output(process, b"held\n")
            await backend.aclose()
    async with life(folder) as backend:
        again = await backend.attach("p")
        assert again.instance != process.instance
        await again.write(b"two\n")
        events = await until_output(again, b"one\ntwo\n")
        assert only(events, Notice).kind == "incomplete"
    async with last_life(folder) as backend:
        assert (await backend.attach("p")).instance == again.instance


@pytest.mark.parametrize("what", ["*", "idx.*"])
async def test_a_log_that_was_removed_has_a_new_instance(folder: Path, what: str) -> None:
    """Its seqs would begin anew, and a reader would wait for ever at its own; the loss is told."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p"))
        for word in (b"one\n", b"two\n"):
            await process.write(word)
            await until_output(process, word)
    for path in (folder / "p").glob(f"p.*/{what}"):
        path.unlink()
    async with life(folder) as backend:
        again = await backend.attach("p")
        assert again.instance != process.instance
    async with last_life(folder) as backend:
        later = await backend.attach("p")
        assert later.instance == again.instance
        await later.signal("TERM")
        events = await all_events(later)
        assert_seqs_whole(events)
        assert only(events, Notice).kind == "incomplete"
        assert output_of(events) == (b"" if what == "*" else b"one\ntwo\n")


async def test_data_that_was_removed_before_the_keeper_stored_more(folder: Path) -> None:
    """What was told is a gap, and nothing else has its place."""
    flag = folder / "flag"
    async with life(folder) as backend:
        process = await backend.start(
            shell(f"echo one; while [ ! -e {flag} ]; do sleep 0.02; done; echo two; exit 3", process_id="p")
        )
        pid = only(await until_output(process, b"one\n"), Started).pid
    next((folder / "p").glob("p.*/out.0")).unlink()
    flag.touch()
    wait_until(lambda: not is_alive(pid))
    async with last_life(folder) as backend:
        events = await all_events(await backend.attach("p"))
        assert_seqs_whole(events)
        assert (only(events, Gap).bytes, output_of(events), end_of(events).exit_code) == (4, b"two\n", 3)


async def test_end_that_was_in_memory_only_x03(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal knows how it ended; of what it said the loss is told to the byte."""
    async with life(folder) as backend:
        spoke = await backend.start(words("cat", stdin="pipe", process_id="spoke"))
        await spoke.write(b"one\n")
        await until_output(spoke, b"one\n")
        silent = await backend.start(shell("read x; cat", stdin="pipe", process_id="silent"))
        await silent.write(b"x\n")
        with monkeypatch.context() as patch:
            fill_disk(patch, spare=(*STDIN, "journal"))
            for process in (spoke, silent):
                await process.write(b"held\n", end=True)
                events = await all_events(process)
                assert b"held\n" in output_of(events)
                assert end_of(events).exit_code == 0
            await backend.aclose()
    for _ in range(2):
        async with last_life(folder) as backend:
            events = await all_events(await backend.attach("spoke"))
            assert_seqs_whole(events)
            assert (output_of(events), only(events, Gap).bytes, end_of(events).exit_code) == (b"one\n", 5, 0)
            events = await all_events(await backend.attach("silent"))
            assert_seqs_whole(events)
            assert (only(events, Gap).bytes, end_of(events).exit_code) == (5, 0)


async def test_a_full_disk_keeps_no_server_from_starting_x03(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier life has left is taken over, and goes on in memory."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p"))
        await process.write(b"one\n")
        await until_output(process, b"one\n")
        await all_events(await backend.start(shell("echo x", process_id="over")))
    drop_last_journal_line(folder)
    with monkeypatch.context() as patch:
        fill_disk(patch, spare=STDIN)
        async with life(folder) as backend:
            again = await backend.attach("p")
            await again.write(b"two\n")
            await until_output(again, b"one\ntwo\n")
            assert end_of(await all_events(await backend.attach("over"))).exit_code == 0
    async with last_life(folder) as backend:
        assert end_of(await all_events(await backend.attach("over"))).exit_code == 0


async def test_what_no_descriptor_is_free_for_is_followed_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts all the same; one that goes on and one that ends meanwhile lose nothing."""
    async with life(folder) as backend:
        talks = await backend.start(words("cat", stdin="pipe", process_id="talks"))
        await talks.write(b"one\n")
        await until_output(talks, b"one\n")
        flag = folder / "flag"
        line = f"echo begun; until [ -e {flag} ]; do sleep 0.01; done; echo last; exit 3"
        ends = await backend.start(shell(line, process_id="ends"))
        pid = only(await until_output(ends, b"begun"), Started).pid
    room = [False]
    monkeypatch.setattr(restore, "_has_room", lambda: room[0])
    monkeypatch.setattr(restore, "_AGAIN", ms(10))
    async with last_life(folder) as backend:
        assert "no descriptor is free to follow talks" in caplog.text
        assert [info.state for info in await backend.list_processes()] == ["running"] * 2
        flag.touch()
        await asyncio.to_thread(wait_until, lambda: not is_alive(pid))
        ends = await backend.attach("ends")
        assert (await ends.info()).state == "running"
        room[0] = True
        events = await all_events(ends)
        assert_seqs_whole(events)
        assert (output_of(events), end_of(events).exit_code) == (b"begun\nlast\n", 3)
        talks = await backend.attach("talks")
        await talks.write(b"two\n")
        await until_output(talks, b"one\ntwo\n")


async def test_a_life_that_ends_before_there_is_a_descriptor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper goes on holding the command, for the next life."""
    async with life(folder) as backend:
        process = await backend.start(words("cat", stdin="pipe", process_id="p"))
        await process.write(b"one\n")
        await until_output(process, b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(restore, "_has_room", lambda: False)
        async with life(folder):
            pass
    async with last_life(folder) as backend:
        again = await backend.attach("p")
        await again.write(b"two\n")
        await until_output(again, b"one\ntwo\n")


def _all_descriptors() -> Iterator[int]:
    with contextlib.suppress(OSError):
        while True:
            yield os.open(os.devnull, os.O_RDONLY)


def test_room_is_room_for_all_that_is_opened() -> None:
    """Where descriptors have run out there is none, and looking takes none away."""
    assert restore._has_room()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = {int(fd) for fd in os.listdir("/proc/self/fd")}
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(open_now) + 2, limits[1]), limits[1]))
    try:
        taken = list(_all_descriptors())
        assert not restore._has_room()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)
    assert restore._has_room()
