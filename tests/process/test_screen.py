"""The screen of a terminal, found by going after its log."""

import asyncio
import builtins
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from execzmq.process import screen as screens
from execzmq.process.managed import ManagedProcess
from execzmq.process.screen import ProcessScreen, Screens
from execzmq.settings import SCREEN_COLS, SCREEN_ROWS
from execzmq.types.events import Stream
from execzmq.types.params import TtySize
from execzmq.types.results import Screen
from tests.process.logs import add_output
from tests.process.processes import Notes, end, make_process, start
from tests.process.test_emulator import fed, text_of

Writers = dict[Stream, int]


@asynccontextmanager
async def running(folder: Path, **more: Any) -> AsyncIterator[tuple[ManagedProcess, ProcessScreen, Writers]]:
    """Run a process with a small terminal meanwhile."""
    process = make_process(folder, Notes(), tty=True, tty_size=TtySize(4, 12), **more)
    writers = start(process, ("stdout",))
    try:
        yield process, ProcessScreen(process), writers
    finally:
        if writers:
            end(process, writers)
        process.log.close()


def say(process: ManagedProcess, data: bytes) -> None:
    """Let the command write."""
    add_output(process.log, data)


def lines_of(screen: Screen) -> list[str]:
    """Return the text that a screen shows."""
    return text_of(fed(screen.data, rows=screen.rows, cols=screen.cols))


async def test_screen_goes_after_the_log(short_tmp: Path) -> None:
    """Each answer is that of all that is in the log, in the size of then; nothing is gone through twice."""
    async with running(short_tmp) as (process, screen, _):
        assert lines_of(await screen.now()) == [""] * 4
        say(process, b"one\r\n\xe4\xbd")
        shown = await screen.now()
        assert (shown.seq, shown.rows, shown.cols, shown.is_cut) == (process.log.last_seq, 4, 12, False)
        assert shown.data.endswith(b"\xe4\xbd")
        say(process, b"\xa0two")
        process.notice("resized", {"rows": 5, "cols": 20})
        say(process, b"\r\nthree is wider")
        shown = await screen.now()
        assert (shown.rows, shown.cols) == (5, 20)
        assert lines_of(shown) == ["one", "你two", "three is wider", "", ""]
        assert shown is await screen.now()


async def test_screen_after_the_end(short_tmp: Path) -> None:
    """What has ended is answered from the log, as it was; no emulator is kept for it."""
    async with running(short_tmp) as (process, screen, writers):
        say(process, b"last words")
        end(process, writers)
        process.streams.drain()
        assert process.life.is_over
        shown = await screen.now()
        assert (lines_of(shown)[0], shown.seq) == ("last words", process.log.last_seq)
        assert screen._emulator is None
        assert await screen.now() is shown


async def test_several_ask_at_the_same_time(short_tmp: Path) -> None:
    """They share the way through the log; one that is cancelled spoils nothing for the others."""
    async with running(short_tmp) as (process, screen, _):
        for number in range(3000):
            say(process, b"line %d\r\n" % number * 50)
        tasks = [asyncio.create_task(screen.now()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        first, *others = [await task for task in tasks[1:]]
        assert others == [first, first]
        assert lines_of(first) == ["line 2999", "line 2999", "line 2999", ""]


async def test_loop_has_its_turns(short_tmp: Path) -> None:
    """A long past is gone through in turns, also where it costs much a byte."""
    async with running(short_tmp) as (process, screen, _):
        process.notice("resized", {"rows": 60000, "cols": 60000})
        say(process, b"\x1bc" * 100)
        process.notice("resized", {"rows": 4, "cols": 12})
        say(process, b"text \x1b[31mred\x1b[m\r\n" * 40000 + b"end")
        longest, before = 0.0, asyncio.get_running_loop().time()
        task = asyncio.create_task(screen.now())
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            now = asyncio.get_running_loop().time()
            longest, before, turns = max(longest, now - before), now, turns + 1
        assert lines_of(await task)[-1] == "end"
        assert turns > 10
        assert longest < 0.25  # some milliseconds on an idle machine


async def test_narrow_screens_cost_little(short_tmp: Path) -> None:
    """A large screen that becomes a column goes blank: to wrap all of it would take very long."""
    async with running(short_tmp) as (process, screen, _):
        process.notice("resized", {"rows": 200, "cols": 500})
        say(process, b"x" * 100_000)
        for rows, cols in ((1, 1), (3, 10)):
            process.notice("resized", {"rows": rows, "cols": cols})
        say(process, b"new")
        began = time.thread_time()
        shown = await screen.now()
        assert time.thread_time() - began < 0.2  # seconds; wrapping takes more
        assert (shown.is_cut, lines_of(shown)) == (True, ["new", "", ""])


async def test_lost_output_cuts_the_screen(short_tmp: Path) -> None:
    """Where the log has lost output the screen says so, until it is cleared."""
    async with running(short_tmp, budget=64 * 1024) as (process, screen, _):
        for number in range(4000):
            say(process, b"line %d\r\n" % number * 60)
        while process.log.shrink(64 * 1024):
            pass
        assert process.log.dropped["stdout"]
        shown = await screen.now()
        assert shown.is_cut
        assert lines_of(shown) == ["line 3999", "line 3999", "line 3999", ""]
        say(process, b"\x1b[H\x1b[Jnew")
        assert not (await screen.now()).is_cut


async def test_long_past_is_begun_late(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long past the newest part is gone through, which is told."""
    monkeypatch.setattr(screens, "_PAST", 1000)
    async with running(short_tmp) as (process, screen, _):
        for number in range(500):
            say(process, b"line %3d\r\n" % number)
        assert 390 <= screen._seq_before(1000) <= 402
        shown = await screen.now()
        assert (shown.is_cut, lines_of(shown)) == (True, ["line 497", "line 498", "line 499", ""])


async def test_without_an_emulator_it_is_guessed(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no emulator can be installed the newest output stands for the screen."""
    load = builtins.__import__

    def without_avt(name: str, *rest: Any) -> Any:
        if name == "avt":
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_avt)
    async with running(short_tmp) as (process, screen, _):
        say(process, b"old\x1b[2J\x1b[6nnew")
        process.notice("resized", {"rows": 5, "cols": 20})
        shown = await screen.now()
        assert shown == Screen(process.instance, process.log.last_seq, 5, 20, b"\x1b[2Jnew", False)
        say(process, b"more\r\n" * 40000)
        shown = await screen.now()
        assert (shown.is_cut, shown.data[:6], len(shown.data) <= 64 * 1024) == (True, b"more\r\n", True)


async def test_guess_after_a_gap(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a gap a guess begins anew, with holes."""
    async with running(short_tmp, budget=64 * 1024) as (process, screen, _):
        screen._is_hopeless = True
        for number in range(4000):
            say(process, b"line %d\r\n" % number * 60)
        while process.log.shrink(64 * 1024):
            pass
        shown = await screen.now()
        assert shown.is_cut
        assert shown.data.endswith(b"line 3999\r\n")


async def test_guess_of_a_terminal_that_is_too_large(short_tmp: Path) -> None:
    """It is told as an emulator would: no larger than a screen may be, and as cut."""
    async with running(short_tmp) as (process, screen, _):
        screen._is_hopeless = True
        say(process, b"x")
        process.notice("resized", {"rows": 65535, "cols": 65535})
        shown = await screen.now()
        assert (shown.rows, shown.cols, shown.is_cut, shown.data) == (SCREEN_ROWS, SCREEN_COLS, True, b"x")


async def test_fault_of_the_emulator_makes_it_a_guess(short_tmp: Path) -> None:
    """An emulator that fails is given up for that process, and costs nobody anything else."""
    async with running(short_tmp) as (process, screen, _):
        process.notice("resized", {"rows": 1, "cols": 1})
        say(process, "\x1b[?7l\N{WOMAN}still here".encode())
        for _ in range(2):
            shown = await screen.now()
            assert b"still here" in shown.data
            assert screen._emulator is None


async def test_costly_output_makes_it_a_guess(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that would keep the emulator busy for long is given up, for good."""
    monkeypatch.setattr(screens, "_MOST_SECONDS", 0.01)
    async with running(short_tmp) as (process, screen, _):
        say(process, b"\x1bc" * 100_000 + b"still here")
        assert (await screen.now()).data.endswith(b"still here")
        assert screen._is_hopeless


async def test_forgotten_meanwhile(short_tmp: Path) -> None:
    """Who asks for what is forgotten meanwhile is answered at once, with what is known."""
    async with running(short_tmp) as (process, screen, _):
        say(process, b"line\r\n" * 200_000)
        task = asyncio.create_task(screen.now())
        await asyncio.sleep(0)
        process.is_forgotten = True
        assert (await task).seq <= process.log.last_seq


async def test_screens_are_kept_for_the_next_who_asks(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were asked for lately; a forgotten process is not among them."""
    monkeypatch.setattr(screens, "_MOST_SCREENS", 2)
    kept = Screens()
    async with (
        running(short_tmp, process_id="a") as (first, *_),
        running(short_tmp, process_id="b") as (second, *_),
        running(short_tmp, process_id="c") as (third, *_),
    ):
        say(first, b"one")
        for process in (first, second, first, third, first):
            shown = await kept.now(process)
        assert lines_of(shown)[0] == "one"
        assert list(kept._screens) == [third, first]
        kept.forget(first)
        kept.forget(second)
        assert list(kept._screens) == [third]


async def test_large_screens_make_room(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only their number counts; what was shown is kept longer than what draws it."""
    monkeypatch.setattr(screens, "_MOST_MEMORY", 50 * 200 * 500 + 1000)
    kept = Screens()
    async with (
        running(short_tmp, process_id="a") as (first, *_),
        running(short_tmp, process_id="b") as (second, *_),
    ):
        for process in (first, second):
            process.notice("resized", {"rows": 200, "cols": 500})
            say(process, b"old\r\n")
        shown = await kept.now(first)
        await kept.now(second)
        assert [screen._emulator is None for screen in kept._screens.values()] == [True, False]
        assert await kept.now(first) is shown
        assert kept._screens[second]._emulator is not None
        say(first, b"new")
        assert lines_of(await kept.now(first))[:2] == ["old", "new"]
        assert kept._screens[second]._emulator is None
        say(second, b"x" * 2000)
        assert "".join(lines_of(await kept.now(second)))[3:] == "x" * 2000
