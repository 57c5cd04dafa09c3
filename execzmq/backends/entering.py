"""Own the way of a command into its sandbox: from the wrapper's first word to the command's execution.

Knows nothing of what is set up meanwhile, or of the keeper. Nobody tells that a program was executed, so its
process is looked at, as often as something may have happened.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from execzmq.backends.confined import NOBODY
from execzmq.backends.wrapper_status import WrapperStatus
from execzmq.keeper import procfs
from execzmq.keeper.tree import parent_of
from execzmq.process.confinement import Leader

SECONDS = 15.0
"""Time in which a sandbox must exist, and again in which the command must be executed in it."""
_LOOK_AGAIN = 0.001
_SLOWEST = 0.02
_MOST_WORDS = 64 * 1024
_CMDLINE = 4096
_COMMAND = 2
"""Process id of the command in its sandbox, in which bubblewrap itself is 1."""


class NotExecuted(Exception):
    """The command was not executed; `is_late` tells that it has neither failed nor succeeded in time."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__("not executed")
        self.is_late = is_late


async def first_process(status: WrapperStatus) -> Leader:
    """Wait for the sandbox's first process; its pidfd is the caller's.

    Raises:
        NotExecuted: there will be none. OSError: there is no descriptor for it.
    """
    try:
        async with asyncio.timeout(SECONDS):
            while status.first_pid is None and not status.has_ended:
                await status.news()
    except TimeoutError:
        raise NotExecuted(is_late=True) from None
    if status.first_pid is None:
        raise NotExecuted()
    try:
        return Leader(os.pidfd_open(status.first_pid), status.first_pid)
    except ProcessLookupError as error:
        raise NotExecuted() from error


async def executed(
    status: WrapperStatus, first_pid: int, before: Collection[bytes], output: int, *, is_own: bool
) -> Leader:
    """Wait until the command was executed; its pidfd is the caller's; nobody where it has ended already.

    Args:
        before: command lines of what its process is before.
        output: descriptor of what it says; -1 = there is none.
        is_own: nobody but the command says anything there.

    Raises:
        NotExecuted: it will not be, or may never be.
    """
    try:
        async with asyncio.timeout(SECONDS):
            with _hearing(output, status):
                return await _executed(status, first_pid, before, output if is_own else -1)
    except TimeoutError:
        raise NotExecuted(is_late=True) from None


@contextmanager
def _hearing(fd: int, status: WrapperStatus) -> Iterator[None]:
    """Wake who waits for news as soon as something was said, or nobody can say anything any more."""
    loop = asyncio.get_running_loop()

    def hear() -> None:
        loop.remove_reader(fd)
        status.wake()

    if fd >= 0:
        loop.add_reader(fd, hear)
    try:
        yield
    finally:
        if fd >= 0:
            loop.remove_reader(fd)


def _has_words(fd: int) -> bool:
    """Tell whether something was said that nobody has read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(0))


async def _executed(
    status: WrapperStatus, first_pid: int, before: Collection[bytes], own_output: int
) -> Leader:
    pause = _LOOK_AGAIN
    while True:
        if own_output >= 0 and _has_words(own_output):
            return command_in(first_pid)
        pid = child_of(first_pid)
        if pid is not None and is_executed(pid, before):
            return _opened(pid, first_pid)
        if status.exit_code is not None:
            return NOBODY
        if status.has_ended:
            raise NotExecuted()
        await status.news(pause)
        pause = min(2 * pause, _SLOWEST)


def command_in(first_pid: int) -> Leader:
    """Return the command in a sandbox, nobody where it has ended; its pidfd is the caller's."""
    pid = child_of(first_pid)
    return NOBODY if pid is None else _opened(pid, first_pid)


def child_of(pid: int) -> int | None:
    """Return the first process that the first one of a sandbox has made, `None` where it is not there.

    Jobs that have lost their parent are its children too: the command alone is number 2 inside.
    """
    with suppress(OSError):
        for word in procfs.read(f"/proc/{pid}/task/{pid}/children").split():
            if _number_inside(int(word)) == _COMMAND:
                return int(word)
    return None


def _number_inside(pid: int) -> int:
    """Return the process id that a process has in its own namespace, 0 where it has ended."""
    with suppress(OSError):
        for line in procfs.read(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    return 0


def is_executed(pid: int, before: Collection[bytes]) -> bool:
    """Tell whether a process has another command line than before; it has none while it is being executed."""
    try:
        line = procfs.read(f"/proc/{pid}/cmdline", _CMDLINE)
    except OSError:
        return False
    return bool(line) and not any(line == other[:_CMDLINE] for other in before)


def _opened(pid: int, parent: int) -> Leader:
    with suppress(OSError):
        pidfd = os.pidfd_open(pid)
        if parent_of(pid) == parent:
            return Leader(pidfd, pid)
        os.close(pidfd)
    return NOBODY


def words_in(fd: int) -> bytes:
    """Return what can be read from a pipe or terminal at once."""
    words = b""
    with suppress(OSError):
        while len(words) < _MOST_WORDS and (data := os.read(fd, _MOST_WORDS)):
            words += data
    return words
