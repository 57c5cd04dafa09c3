"""A start by vfork: the function in C under subprocess.Popen, without what Popen does around it.

Owns the pipe on which the child reports. What Popen does around the function costs the keeper as much as all
the rest of a start, and posix_spawn(3) would leave two signals ignored. The function is not public:
`IS_KNOWN` tells whether its arguments are known for this Python.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.diagnose import candidates, explain
from execzmq.keeper.launch import Launch, entries_of

IS_KNOWN = sys.version_info < (3, 15)
_HIGHEST_STREAM = 2

_fork_exec: Callable[..., int] = _posixsubprocess.fork_exec
# The last argument until 3.13: the child may borrow this process's memory until it executes.
_ALLOW_VFORK = (True,) if sys.version_info < (3, 14) else ()
_NONE = -1


def can_start(launch: Launch, descriptors: Mapping[int, int]) -> bool:
    """Tell whether a command needs no more than a session and descriptors, at numbers that are free here."""
    controls = launch.tty is not None and launch.tty.controls
    by_hand = launch.limits or launch.joins or launch.scoped or launch.detached
    if not IS_KNOWN or controls or by_hand:
        return False
    return not any(_is_open(number) for number in descriptors if number > _HIGHEST_STREAM)


def start(launch: Launch, descriptors: Mapping[int, int], limit: DescriptorLimit | None) -> int:
    """Start a command for which `can_start` holds.

    Args:
        descriptors: number in the command to descriptor here.

    Returns:
        Its process id, which the caller reaps.

    Raises:
        SpawnError: it cannot be executed; there is no process.
        OSError: no process or pipe can be made.
        ValueError: one of its strings has a NUL byte.
    """
    reader, writer = os.pipe()
    try:
        try:
            with _placed(descriptors) as numbers:
                pid = _start(launch, descriptors, limit, (reader, writer), numbers)
        finally:
            os.close(writer)
        report = os.read(reader, 64)
    finally:
        os.close(reader)
    if report:
        os.waitpid(pid, 0)
        raise explain(launch, "exec", _errno_in(report))
    return pid


@contextlib.contextmanager
def _placed(descriptors: Mapping[int, int]) -> Iterator[list[int]]:
    """Have the further descriptors at their numbers here too, as the function in C does not move them."""
    numbers = sorted(number for number in descriptors if number > _HIGHEST_STREAM)
    with contextlib.ExitStack() as placed:
        for number in numbers:
            os.dup2(descriptors[number], number, inheritable=False)
            placed.callback(os.close, number)
        yield numbers


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _start(
    launch: Launch,
    descriptors: Mapping[int, int],
    limit: DescriptorLimit | None,
    pipe: tuple[int, int],
    numbers: Iterable[int],
) -> int:
    arguments = (
        launch.argv if launch.arg0 is None else (launch.arg0, *launch.argv[1:]),
        candidates(launch),
        True,  # close all other descriptors
        tuple(sorted((*numbers, pipe[1]))),
        launch.cwd or b"/",
        entries_of(launch.env),
        # The command's end of each stream; ours close themselves.
        *(descriptors[0], _NONE),
        *(_NONE, descriptors[1]),
        *(_NONE, descriptors[2]),
        *pipe,
        True,  # restore the signals that Python ignores
        True,  # start a session
        _NONE,  # no group of another
        *(None, None, None),  # the same user and groups
        _NONE if launch.umask is None else launch.umask,
        None,  # nothing to call in the child
        *_ALLOW_VFORK,
    )
    if limit is None:
        return _fork_exec(*arguments)
    limit.lower()
    try:
        return _fork_exec(*arguments)
    finally:
        limit.raise_again()


def _errno_in(report: bytes) -> int:
    """Read the errno in what the child wrote: the error's class, its number and where it came from."""
    return int(report.split(b":", 2)[1], 16)
