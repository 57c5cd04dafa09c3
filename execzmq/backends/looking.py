"""Own the look at the disk for one start: what its command will see, and that it stays until it is mounted.

It is taken aside of the loop, unless it is short, no file system can hang that is looked at, and the same was
looked at before. Then what was found the last time is expected to be so, and the look is taken as soon as the
wrapper is being loaded, before that is told of anything. Knows nothing of processes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from execzmq.aside import aside
from execzmq.backends.launching import spawn_error
from execzmq.backends.sweeping import Sweeper
from execzmq.errors import InvalidRequest, SandboxUnavailable
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.model import Permissions, View
from execzmq.sandbox.paths import check_opened, opened
from execzmq.sandbox.planning import Plan, Wish, wish_of
from execzmq.sandbox.plans import Plans
from execzmq.sandbox.wrapper import Wrapper, require_outside

_OWN_CODE = tuple(os.fsencode(path) for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[1]))
"""What the next server will execute."""
_SECONDS = 15.0
"""Time in which the folders that a request names must be found."""


class Outdated(Exception):
    """The disk has changed since a start was prepared: prepare it anew."""


@dataclass(slots=True, eq=False)
class Looked:
    """What a look has found; owns the view and the descriptor.

    Attributes:
        starting: descriptor that keeps what others have left on the disk.
        check: to be called before anything of the view is mounted. Raises Outdated; InvalidRequest: a part of
            it was replaced; SpawnFailed: there is no descriptor or memory to look with.
    """

    view: View
    starting: int
    check: Callable[[], None]

    def close(self) -> None:
        """Close all; idempotent."""
        self.view.close()
        if self.starting >= 0:
            os.close(self.starting)
            self.starting = -1


class Looker:
    """Takes the looks of one backend.

    Args:
        hidden: what no command sees.
        sweeper: returns who removes what sandboxes leave.
    """

    def __init__(self, hidden: Sequence[bytes], sweeper: Callable[[], Sweeper]) -> None:
        self._hidden = hidden
        self._sweeper = sweeper
        self._plans = Plans()
        self._unexpected: set[Wish] = set()
        """Wishes for which nothing that was found before has been found again."""

    async def look(self, permissions: Permissions, wrapper: Wrapper) -> Looked:
        """Return what a command with these permissions will see; the caller's from now on.

        Cancelled, nothing is left of it.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: the disk does not answer, or what is to be hidden cannot be.
            OSError: there is no descriptor, thread or memory to look with.
        """
        wish = wish_of(permissions, self._hidden, _OWN_CODE)
        found = self._expected(wish) or await self._aside(wish)
        try:
            require_outside(wrapper, found.view.roots)
        except BaseException:
            found.close()
            raise
        return found

    def _expected(self, wish: Wish) -> Looked | None:
        """Return what was found the last time, where a look again is short; `None` where it is not."""
        plan = self._plans.expected(wish, Disk())
        if plan is None or wish in self._unexpected:
            self._unexpected.discard(wish)
            return None
        with contextlib.suppress(BlockingIOError, InvalidRequest), contextlib.ExitStack() as undoing:
            starting = self._sweeper().starting(waits=False)
            undoing.callback(os.close, starting)
            view = opened(plan)
            undoing.pop_all()
            return Looked(view, starting, partial(self._check, wish, plan, view))
        return None

    def _check(self, wish: Wish, plan: Plan, view: View) -> None:
        try:
            found = self._plans.kept(wish, Disk(self._sweeper().paths))
        except OSError as error:
            raise spawn_error(error) from None
        if found is None:
            self._unexpected.add(wish)
        if found != plan:
            raise Outdated
        check_opened(view)

    async def _aside(self, wish: Wish) -> Looked:
        try:
            return await aside(partial(self._found, wish, self._sweeper()), _SECONDS, Looked.close)
        except TimeoutError:
            words = f"its folders were not found within {_SECONDS:.0f} s: does a file system not answer?"
            raise SandboxUnavailable(words, reason="slow_folders") from None

    def _found(self, wish: Wish, sweeper: Sweeper) -> Looked:
        with contextlib.ExitStack() as undoing:
            starting = sweeper.starting(waits=True)
            undoing.callback(os.close, starting)
            view = opened(self._plans.get(wish, Disk(sweeper.paths)))
            undoing.pop_all()
        return Looked(view, starting, _no_doubt)


def _no_doubt() -> None:
    """Check nothing: it was looked at just now."""
