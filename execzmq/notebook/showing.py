"""Own the thread that follows one process for a cell: reads its log, shows it, and tells what comes of it.

It pages the log with long polls, never faster than there is something to show, so that a flood costs neither
the kernel nor the page more than a trickle does. It runs in a copy of the cell's context: what a kernel is
told from there belongs to that cell, also when others run by then.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Literal

from execzmq.client.notices import words_of
from execzmq.client.sync import Process
from execzmq.errors import ExecZMQError, from_wire
from execzmq.notebook.screens import Screen
from execzmq.notebook.views import CellView
from execzmq.settings import KIB, LONG_POLL
from execzmq.types.events import Closed, Event, Failed, Gap, Notice, Output, Stream
from execzmq.types.results import ExitResult, ReadResponse

VIEW_AFTER = 1.0
"""Seconds after which a command that has said nothing gets a view."""
HOLD = 0.02
"""Seconds for which the first output waits for the end: what ends by then needs no view above it."""
_PAGE = 256 * KIB
_FAR_BEHIND = 16
"""Events by which a page may be behind the log before the ones between are left out."""
_KEPT = 8
"""Events before the log's end with which it then goes on."""
_LEAST_PAUSE, _MOST_PAUSE = 0.002, 0.1

News = Literal["exited", "over"]


class Showing:
    """Follows a process until its streams have ended.

    Args:
        view: what is shown besides the output; `None` = nothing.
        is_view_due: show the view at once.
        captured: streams that are kept instead of shown.
        tell: called from the thread: `exited` when the command has ended, `over` last of all.
        after_seq: the event after which to begin.
    """

    def __init__(
        self,
        process: Process,
        screen: Screen,
        view: CellView | None,
        tell: Callable[[News], object],
        *,
        captured: tuple[Stream, ...] = (),
        is_view_due: bool = False,
        after_seq: int = 0,
    ) -> None:
        self.result: ExitResult | None = None
        self.error: ExecZMQError | None = None
        self.captured: dict[Stream, list[bytes]] = {stream: [] for stream in captured}
        self._process = process
        self._screen = screen
        self._view = view
        self._tell = tell
        self._seq = after_seq
        self._began = time.monotonic()
        self._view_at: float | None = None if view is None else self._began + VIEW_AFTER * (not is_view_due)
        self._has_view = self._has_exited = self._is_held = self._is_left = False
        self._pause = 0.0

    def begin(self) -> None:
        """Start the thread, in the context of the caller's cell.

        A view that is due at once is displayed before: a notebook that is run as a file takes what a cell has
        displayed by its end, and what changes of that later.
        """
        self._show_view_if_due(time.monotonic())
        target = contextvars.copy_context().run
        threading.Thread(target=target, args=(self._run,), name="execzmq-cell", daemon=True).start()

    def leave(self) -> bool:
        """Show nothing more, whatever comes; false, for whoever waits for it no longer need."""
        self._is_left = True
        return False

    def _run(self) -> None:
        try:
            while not self._take(self._read()):
                if self._is_left:
                    return
            self._screen.finish(time.monotonic())
            self._tell_view()
            if self.result is None:  # its end came before `after_seq`
                self.result = self._process.wait(closed=True)
        except ExecZMQError as error:
            self._screen.finish(time.monotonic())
            self.error = error
        finally:
            if self._has_view and self._view is not None:
                self._view.end(self.result)
            self._tell("over")

    def _read(self) -> ReadResponse:
        if self._pause:
            time.sleep(self._pause)
        page = None if self.captured else _PAGE
        return self._process.read(self._seq, page, wait=self._patience())

    def _patience(self) -> float:
        """Return the seconds for which news may be waited for before there is something to show."""
        now = time.monotonic()
        if self._view_at is not None:
            return max(0.0, self._view_at - now)
        left = self._screen.left(now)
        return LONG_POLL if left is None else left

    def _take(self, page: ReadResponse) -> bool:
        """Take a page; tell whether it is the last one."""
        if self._is_left:
            return False
        for event in page.chunks:
            self._take_event(event)
        self._seq = max(self._seq, page.next_seq)
        if page.exited and not self._has_exited:
            self._has_exited = True
            self._tell("exited")
        if page.closed and self._seq >= page.last_seq:
            return True
        self._refresh(time.monotonic())
        self._leave_out(page)
        self._pause = self._next_pause(page)
        return False

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Output):
            if event.stream in self.captured:
                self.captured[event.stream].append(event.data)
            else:
                self._screen.feed(event)
        elif isinstance(event, Gap):
            self._screen.say(f"[... {event.bytes:,} bytes lost ...]")
        elif isinstance(event, Notice):
            words = words_of(self._process.process_id, event, listing="its profile")
            if words is not None:
                self._screen.say(f"execzmq: {words}")
        elif isinstance(event, Closed):
            self.result = event.result
        elif isinstance(event, Failed):
            raise from_wire(event.error)

    def _refresh(self, now: float) -> None:
        """Show what is due; the first output waits a moment for the end, or stands below the view."""
        left = self._screen.left(now)
        if left is not None and self._view_at is not None and not self._is_held:
            self._is_held, self._view_at = True, min(self._view_at, now + HOLD)
        self._show_view_if_due(now)
        if left == 0.0 and self._view_at is None:
            self._screen.show(now)
            self._tell_view()

    def _leave_out(self, page: ReadResponse) -> None:
        """Go on near the log's end where that is far, unless somebody wants all of it."""
        is_far = page.last_seq - self._seq > _FAR_BEHIND
        if is_far and self._screen.can_skip and not self.captured:
            self._screen.skip()
            self._seq = page.last_seq - _KEPT

    def _next_pause(self, page: ReadResponse) -> float:
        """Return the seconds before the next read: growing ones, so that many small events make few reads.

        None once the streams have ended: what is left of the log is what the end waits for.
        """
        left = self._screen.left(time.monotonic())
        if self.captured or not left or self._view_at is not None or page.closed:
            return 0.0
        if page.last_seq > self._seq:  # there is more than can be shown
            return min(left, _MOST_PAUSE)
        return min(max(2 * self._pause, _LEAST_PAUSE), left, _MOST_PAUSE)

    def _show_view_if_due(self, now: float) -> None:
        if self._view is not None and self._view_at is not None and now >= self._view_at:
            self._has_view, self._view_at = True, None
            self._view.begin()

    def _tell_view(self) -> None:
        if self._has_view and self._view is not None:
            self._view.shown(self._seq)
