"""Own what terminals show: emulators that go after the logs of processes when somebody asks.

Nothing is done for a terminal that nobody asks about. To go through a long past takes many turns of the loop;
what costs more than it is worth is given up for a guess from the newest output.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from execzmq.process import guess, payloads
from execzmq.process.emulator import Emulator, EmulatorBroken
from execzmq.process.paging import Dropped, LogPage
from execzmq.process.reading import page_of
from execzmq.settings import MIB, SCREEN_COLS, SCREEN_ROWS
from execzmq.types.results import Screen

if TYPE_CHECKING:
    from execzmq.process.index import Record
    from execzmq.process.managed import ManagedProcess

_PAST = 32 * MIB
"""Bytes of the past that an emulator goes through at most."""
_PAGE = 64 * 1024
_TURN = 0.003
"""Seconds after which the loop has its turn."""
_MOST_SECONDS = 5.0
"""Seconds of work for one answer; a usual past of 32 MiB takes about two."""


_MOST_SCREENS = 64
"""Screens that are kept for the next who asks."""
_MOST_MEMORY = 24 * MIB
"""Bytes that these may have together, as far as there is more than one."""
_AT_ONCE = 4
"""Screens that are worked at; the largest has some 6 MiB."""
_BYTES_A_CELL = 50


class _TooCostly(Exception):
    """The output is of a kind that an emulator is not worth."""


class Screens:
    """The screens of processes that were asked for lately."""

    def __init__(self) -> None:
        self._screens: dict[ManagedProcess, ProcessScreen] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def now(self, process: ManagedProcess) -> Screen:
        """Return what a process's terminal shows; see ProcessScreen."""
        async with self._places:
            screen = self._screens.pop(process) if process in self._screens else ProcessScreen(process)
            self._screens[process] = screen
            try:
                return await screen.now()
            finally:
                self._make_room()

    def forget(self, process: ManagedProcess) -> None:
        """Give up what is kept of a process; no error where that is nothing."""
        self._screens.pop(process, None)

    def _make_room(self) -> None:
        """Forget the oldest; who asks again, the answer being late, shall not find all to be done anew."""
        if len(self._screens) > _MOST_SCREENS:
            del self._screens[next(iter(self._screens))]
        *others, _ = self._screens.values()
        for screen in others:
            if self._memory() > _MOST_MEMORY:
                screen.rest()
        while len(self._screens) > 1 and self._memory() > _MOST_MEMORY:
            del self._screens[next(iter(self._screens))]

    def _memory(self) -> int:
        return sum(screen.memory for screen in self._screens.values())


class ProcessScreen:
    """What the terminal of `process` shows. Any number may ask at the same time: they share one emulator."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process
        self._emulator: Emulator | None = None
        self._is_hopeless = False
        self._seq = 0  # the event up to which it was fed, and the bytes of the one after that
        self._fed = 0
        self._shown: Screen | None = None
        self._last: Screen | None = None
        self._turn = asyncio.Lock()

    @property
    def memory(self) -> int:
        """Return about how many bytes this has."""
        cells = 0 if self._emulator is None else self._emulator.rows * self._emulator.cols
        shown = self._last or self._shown
        return _BYTES_A_CELL * cells + (0 if shown is None else len(shown.data))

    async def now(self) -> Screen:
        """Return the screen after all that is in the log. Cancelling leaves what was gone through.

        Raises:
            ServerError: the log cannot be read.
        """
        async with self._turn:
            return self._last or await self._look()

    def rest(self) -> None:
        """Keep the last screen alone, unless one is worked at: the next one is found from the beginning."""
        if not self._turn.locked():
            self._emulator, self._seq, self._fed = None, 0, 0

    async def _look(self) -> Screen:
        process = self._process
        screen = self._shown
        if screen is None or screen.seq != process.log.last_seq:
            screen = self._shown = await self._draw()
        if process.life.is_over and screen.seq >= process.log.last_seq:
            self._last, self._emulator, self._shown = screen, None, None
        return screen

    async def _draw(self) -> Screen:
        if not self._is_hopeless:
            try:
                await self._catch_up(self._process.log.last_seq)
            except (ImportError, EmulatorBroken, _TooCostly):
                self._emulator, self._is_hopeless = None, True
        return self._guessed() if self._emulator is None else self._seen(self._emulator)

    async def _catch_up(self, last_seq: int) -> None:
        emulator = self._emulator or self._begin()
        work = _Work()
        while self._seq < last_seq and not self._process.is_forgotten:
            page = page_of(self._process, self._seq, _PAGE)
            await self._take(emulator, page, work)

    def _begin(self) -> Emulator:
        spec = self._process.spec
        self._emulator = Emulator(spec.rows, spec.cols)
        self._seq = self._seq_before(_PAST)
        if self._seq:
            self._emulator.lose()
        return self._emulator

    async def _take(self, emulator: Emulator, page: LogPage, work: _Work) -> None:
        begin = 0
        for entry in page.entries:
            if isinstance(entry, Dropped):
                emulator.lose()
            elif entry.kind == "output":
                await self._feed(emulator, memoryview(page.buffer)[begin : begin + entry.length], work)
                begin += entry.length
            elif (size := _size_in(entry, page)) is not None:
                with work:
                    emulator.resize(*size)
            self._seq, self._fed = _last_of(entry), 0
            await work.pause()
        self._seq = max(self._seq, page.next_seq)

    async def _feed(self, emulator: Emulator, data: memoryview, work: _Work) -> None:
        while self._fed < len(data):
            piece = bytes(data[self._fed : self._fed + emulator.piece])
            self._fed += len(piece)
            with work:
                emulator.feed(piece)
            await work.pause()

    def _seen(self, emulator: Emulator) -> Screen:
        return Screen(
            instance=self._process.instance,
            seq=self._seq,
            rows=emulator.rows,
            cols=emulator.cols,
            data=emulator.picture(),
            is_cut=emulator.is_cut,
        )

    def _guessed(self) -> Screen:
        process, seq = self._process, self._seq_before(guess.LIMIT)
        is_cut, past, size = seq > 0, bytearray(), (process.spec.rows, process.spec.cols)
        end = process.log.last_seq
        while seq < end:
            page = page_of(process, seq)
            if any(isinstance(entry, Dropped) for entry in page.entries):
                is_cut, past = True, bytearray()
            past += page.buffer
            sizes = [_size_in(entry, page) for entry in page.entries]
            size = next((one for one in reversed(sizes) if one is not None), size)
            seq = page.next_seq
        picture = guess.picture(bytes(past[-guess.LIMIT :]), is_cut=is_cut or len(past) > guess.LIMIT)
        rows, cols = min(size[0], SCREEN_ROWS), min(size[1], SCREEN_COLS)
        is_cut = picture.is_cut or (rows, cols) != size
        return Screen(process.instance, end, rows, cols, picture.data, is_cut)

    def _seq_before(self, size: int) -> int:
        """Return a seq after which at least the newest `size` bytes come, though not many more."""
        log = self._process.log
        wanted = log.ends["stdout"] - size
        low, high = 0, log.last_seq if wanted > 0 else 0
        while high - low > 1:
            middle = (low + high) // 2
            if log.ends_at(middle)["stdout"] <= wanted:
                low = middle
            else:
                high = middle
        return low


class _Work:
    """Measures the work for one answer, and cuts it into turns of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = _MOST_SECONDS
        self._began = self._loop.time()
        self._entered = 0.0

    def __enter__(self) -> None:
        self._entered = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self._left -= time.thread_time() - self._entered

    async def pause(self) -> None:
        """Let the loop have its turn where it is due.

        Raises:
            _TooCostly: the work was too much.
        """
        if self._left < 0:
            raise _TooCostly
        if self._loop.time() - self._began > _TURN:
            await asyncio.sleep(0)
            self._began = self._loop.time()


def _last_of(entry: Record | Dropped) -> int:
    return entry.to_seq if isinstance(entry, Dropped) else entry.seq


def _size_in(entry: Record | Dropped, page: LogPage) -> tuple[int, int] | None:
    """Return the rows and columns that a terminal has from this event on, if it tells of them."""
    if entry.kind != "notice":
        return None
    notice = payloads.decode(page.payloads.get(entry.seq, b""))
    if notice.get("kind") != payloads.RESIZED:
        return None
    rows, cols = notice["data"].get("rows"), notice["data"].get("cols")
    is_size = isinstance(rows, int) and isinstance(cols, int) and rows > 0 and cols > 0
    return (rows, cols) if is_size else None
