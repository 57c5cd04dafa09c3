"""Own the look at the disk for one start: what its command will see, and that it stays until it is mounted.

It is taken at once where it is short and no file system can hang that is looked at, else aside of the loop.
Knows nothing of processes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from execzmq.aside import aside
from execzmq.backends.sweeping import Sweeper
from execzmq.errors import SandboxUnavailable
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.model import Permissions, View
from execzmq.sandbox.paths import opened
from execzmq.sandbox.planning import Plan, Wish, wish_of
from execzmq.sandbox.plans import Plans
from execzmq.sandbox.wrapper import Wrapper, require_outside

_OWN_CODE = tuple(os.fsencode(path) for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[1]))
"""What the next server will execute."""
_SECONDS = 15.0
"""Time in which the folders that a request names must be found."""


class Looked(NamedTuple):
    """What a look has found; its owner closes both.

    Attributes:
        starting: descriptor that keeps what others have left on the disk.
    """

    view: View
    starting: int

    def close(self) -> None:
        """Close both; not idempotent."""
        self.view.close()
        os.close(self.starting)


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

    async def look(self, permissions: Permissions, wrapper: Wrapper) -> Looked:
        """Return what a command with these permissions will see; the caller's from now on.

        Cancelled, nothing is left of it.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: the disk does not answer, or what is to be hidden cannot be.
            OSError: there is no descriptor, thread or memory to look with.
        """
        wish = wish_of(permissions, self._hidden, _OWN_CODE)
        found = self._at_once(wish) or await self._aside(wish)
        try:
            require_outside(wrapper, found.view.roots)
        except BaseException:
            found.close()
            raise
        return found

    def _at_once(self, wish: Wish) -> Looked | None:
        """Look again for what was planned before, where that is short; `None` where it is otherwise now."""
        disk = Disk()
        if not self._plans.is_short(wish, disk):
            return None
        with contextlib.suppress(BlockingIOError):
            return self._found(lambda: self._plans.kept(wish, disk), disk, waits=False)
        return None

    async def _aside(self, wish: Wish) -> Looked:
        disk = Disk()
        look = partial(self._found, lambda: self._plans.get(wish, disk), disk, waits=True)
        try:
            found = await aside(look, _SECONDS, _drop)
        except TimeoutError:
            words = f"its folders were not found within {_SECONDS:.0f} s: does a file system not answer?"
            raise SandboxUnavailable(words, reason="slow_folders") from None
        assert found is not None  # it was planned anew if need be
        return found

    def _found(self, plan_of: Callable[[], Plan | None], disk: Disk, *, waits: bool) -> Looked | None:
        sweeper = self._sweeper()
        with contextlib.ExitStack() as undoing:
            starting = sweeper.starting(waits=waits)
            undoing.callback(os.close, starting)
            disk.placeholders = sweeper.paths
            if (plan := plan_of()) is None:
                return None
            found = Looked(opened(plan), starting)
            undoing.pop_all()
        return found


def _drop(found: Looked | None) -> None:
    if found is not None:
        found.close()
