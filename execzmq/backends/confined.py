"""Own the sandbox of one command from its first process to its last: who is in it, and how they have ended.

Knows nothing of how a sandbox is made, or of what must be tidied up after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from execzmq.keeper import pidfds
from execzmq.keeper.messages import INSIDE, SANDBOX
from execzmq.keeper.pidfds import exit_status, is_over
from execzmq.process.confinement import Leader

FIRST, COMMAND = SANDBOX, INSIDE
"""Names by which a keeper holds the pidfd of the sandbox's first process, and that of the command in it."""

NOBODY = Leader(-1, 0)
_NOTHING: Mapping[str, int] = MappingProxyType({})
_BY_SIGNAL = 128
"""The wrapper exits with this and the number of the signal that has ended the command."""
_MOST_SIGNAL = 64


class Confined:
    """A sandbox and who is in it; the descriptors are its own.

    Args:
        wrapper: process id of the wrapper, which the keeper has started and reaps.
        first: the sandbox's first process, `NOBODY` where it is not known any more.
        command: the same of the command in it.
        has_terminal: the command leads its group; else the first process does.
        ended: called once, when nobody is in the sandbox any more.
        others: descriptors by name that a keeper must hold as long as somebody is in it; owned from now on.

    Attributes:
        is_over: nobody is in it any more.
        knows_status: `status` has told the command's own, and not what the wrapper makes of it.
    """

    def __init__(
        self,
        wrapper: int,
        first: Leader,
        command: Leader,
        *,
        has_terminal: bool,
        ended: Callable[[], None],
        others: Mapping[str, int] = _NOTHING,
    ) -> None:
        self._wrapper = wrapper
        known = {name: one for name, one in ((FIRST, first), (COMMAND, command)) if one.pidfd >= 0}
        self._fds = {name: one.pidfd for name, one in known.items()}
        self._pids = {name: one.pid for name, one in known.items()}
        self._others = dict(others)
        self._has_terminal = has_terminal
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self.is_over = FIRST not in self._fds
        self.knows_status = False
        if not self.is_over:
            self._loop.add_reader(self._fds[FIRST], self._end)

    @property
    def leader(self) -> Leader:
        """Return who leads the command's group inside."""
        name = COMMAND if self._has_terminal else FIRST
        return Leader(self._fds.get(name, -1), self._pids.get(name, 0))

    @property
    def wrappers(self) -> frozenset[int]:
        """Return the wrapper and the first process: both end by themselves when the others have."""
        return frozenset({self._wrapper, self._pids.get(FIRST, 0)})

    def status(self, status: int | None) -> int | None:
        """Return how the command has ended, as from wait(2).

        The kernel tells it (Linux 6.15); where it does not, the wrapper's exit code is what there is.
        """
        told = exit_status(self._fds[COMMAND]) if COMMAND in self._fds else None
        self.knows_status = told is not None
        return unfolded(status) if told is None else told

    def descriptors(self) -> dict[str, int]:
        """Return by name what a keeper must hold; they stay this object's."""
        return {**self._fds, **self._others}

    def has_ended(self) -> bool:
        """Tell whether nobody is in it now, also where the loop has not noticed yet."""
        if self.is_over:
            return True
        return is_over(self._fds[FIRST])

    def kill(self) -> None:
        """End all that is in the sandbox at once."""
        if FIRST in self._fds:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._fds[FIRST], signal.SIGKILL)

    def stop(self) -> None:
        """Watch no more; idempotent."""
        if FIRST in self._fds:
            self._loop.remove_reader(self._fds[FIRST])

    def close(self) -> None:
        """Watch no more, and close the descriptors; idempotent."""
        self.stop()
        close_all(self._fds)
        close_all(self._others)

    def _end(self) -> None:
        self._loop.remove_reader(self._fds[FIRST])
        self.is_over = True
        close_all(self._others)
        self._ended()


def close_all(fds: dict[str, int]) -> None:
    """Close descriptors, and forget them."""
    while fds:
        os.close(fds.popitem()[1])


def unfolded(status: int | None) -> int | None:
    """Return the status that a wrapper's exit code stands for: 128 and a number is that signal."""
    if status is None or not os.WIFEXITED(status):
        return status
    number = os.WEXITSTATUS(status) - _BY_SIGNAL
    return number if 0 < number <= _MOST_SIGNAL else status


def leader_of(pidfd: int) -> Leader:
    """Return the process that a pidfd stands for; -1 is nobody."""
    return NOBODY if pidfd < 0 else Leader(pidfd, pid_of(pidfd))


def pid_of(pidfd: int) -> int:
    """Return the process id that a pidfd stands for, 0 where the process is gone."""
    with suppress(OSError):
        return max(0, pidfds.pid_of(pidfd))
    return 0
