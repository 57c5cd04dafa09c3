"""A start by vfork: the function in C under subprocess.Popen, without what Popen does around it.

Owns nothing. What Popen does around the function costs the keeper as much as all the rest of a start, and
posix_spawn(3) would leave two signals ignored. The function is not public: `IS_KNOWN` tells whether its
arguments are known for this Python.
"""

from __future__ import annotations

import _posixsubprocess
import sys
from collections.abc import Callable

from execzmq.keeper.child import Plan
from execzmq.keeper.launch import entries_of

IS_KNOWN = sys.version_info < (3, 15)

_fork_exec: Callable[..., int] = _posixsubprocess.fork_exec
# The last argument until 3.13: the child may borrow this process's memory until it executes.
_ALLOW_VFORK = (True,) if sys.version_info < (3, 14) else ()
_NONE = -1


def start(plan: Plan, reader: int) -> int:
    """Start a command in a new session, with default signals and its descriptors 0, 1 and 2 alone.

    Args:
        plan: what to start; its terminal, limits and release are not looked at.
        reader: the other end of `plan.report`.

    Returns:
        Its process id, which the caller reaps. If it could not be executed, `plan.report` has got the reason.

    Raises:
        OSError: there is no process.
    """
    return _fork_exec(
        plan.argv,
        plan.paths,
        True,  # close all other descriptors
        (plan.report,),
        plan.cwd,
        entries_of(plan.env),
        # The command's end of each stream; ours close themselves.
        *(plan.descriptors[0], _NONE),
        *(_NONE, plan.descriptors[1]),
        *(_NONE, plan.descriptors[2]),
        *(reader, plan.report),
        True,  # restore the signals that Python ignores
        True,  # start a session
        _NONE,  # no group of another
        *(None, None, None),  # the same user and groups
        _NONE if plan.umask is None else plan.umask,
        None,  # nothing to call in the child
        *_ALLOW_VFORK,
    )


def parse_report(report: bytes) -> tuple[str, int] | None:
    """Read what a child wrote: the step that failed and its errno; None if it was executed.

    A working directory that cannot be entered is not told from a program that cannot be executed.
    """
    if not report:
        return None
    number = report.split(b":", 2)[1]
    return "exec", int(number, 16)
