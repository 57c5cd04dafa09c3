"""What runs in the child between fork and exec, where more is needed than subprocess can do.

Owns the child's side of a start: session, terminal, limits, descriptors at given numbers, and the report of
an error. The keeper is single-threaded, so that Python may run here. It must not
return.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from execzmq.keeper import landlock, mounts, signals

T = TypeVar("T")


class Plan(NamedTuple):
    """All that the child needs, worked out before the fork, so that little is done after it.

    Attributes:
        paths: where the program is tried, in order.
        descriptors: number in the command to descriptor here.
        terminal: the command's stdin is to be its controlling terminal.
        limits: number of a resource to its (soft, hard) pair.
        joins: files of control groups to write itself to.
        scoped: nothing is to be reached through abstract sockets or signals that it has not made itself.
        detached: its mounts are to be its own.
        report: gets the step and errno of a failure.
    """

    paths: Sequence[bytes]
    argv: list[bytes]
    env: Mapping[bytes, bytes]
    cwd: bytes
    umask: int | None
    descriptors: dict[int, int]
    terminal: bool
    limits: list[tuple[int, tuple[int, int]]]
    joins: Sequence[bytes]
    scoped: bool
    detached: bool
    report: int


class _StepFailed(Exception):
    """A named step of the start failed."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step = step
        self.number = number


def become(plan: Plan) -> NoReturn:
    """Turn this forked child into the command, or report the step and errno that failed and exit."""
    try:
        signals.reset()
        plan = _in_step("descriptors", _place_descriptors, plan)
        _in_step("session", _enter_session, plan)
        _in_step("cwd", _enter_folder, plan)
        _join_groups(plan)
        _in_step("limits", _set_limits, plan)
        _in_step("mounts", _detach, plan)
        _in_step("scope", _enter_scope, plan)
        _in_step("exec", _execute, plan)
    except _StepFailed as exc:
        os.write(plan.report, f"{exc.step}:{exc.number}".encode())
    finally:
        os._exit(127)


def _in_step(step: str, work: Callable[[Plan], T], plan: Plan) -> T:
    try:
        return work(plan)
    except OSError as exc:
        raise _StepFailed(step, exc.errno or errno.EIO) from exc
    except Exception as exc:
        # No report would be taken for a success.
        raise _StepFailed(step, errno.ENOMEM if isinstance(exc, MemoryError) else errno.EIO) from exc


def parse_report(report: bytes) -> tuple[str, int] | None:
    """Read what a child wrote: the step that failed and its errno; None if it was executed."""
    if not report:
        return None
    step, _, number = report.partition(b":")
    return step.decode(), int(number)


def _enter_session(plan: Plan) -> None:
    os.setsid()
    if plan.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _enter_folder(plan: Plan) -> None:
    os.chdir(plan.cwd)
    if plan.umask is not None:
        os.umask(plan.umask)


def _place_descriptors(plan: Plan) -> Plan:
    """Put every descriptor at its number and close all others, also those that only close at exec."""
    above = max(plan.descriptors) + 1
    report = _lift(plan.report, above)
    lifted = {number: _lift(fd, above) for number, fd in plan.descriptors.items()}
    for number, fd in lifted.items():
        os.dup2(fd, number)
    close_others({*plan.descriptors, report})
    return plan._replace(report=report)


def _lift(fd: int, above: int) -> int:
    """Duplicate to a number that no descriptor of the command will take."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)


def _join_groups(plan: Plan) -> None:
    """Join control groups; who counts on one looks whether that was done."""
    for path in plan.joins:
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, b"0")
            finally:
                os.close(fd)


def close_others(kept: set[int]) -> None:
    """Close every descriptor but these."""
    low = 0
    for fd in sorted(kept):
        # An empty range at 0 would reach close_range(2) as one without end.
        if low < fd:
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _set_limits(plan: Plan) -> None:
    """Set the limits last: what comes before may need more than they leave."""
    for name, pair in plan.limits:
        try:
            resource.setrlimit(name, pair)
        except ValueError as exc:  # what resource makes of EPERM and EINVAL
            raise PermissionError(errno.EPERM, str(exc)) from exc


def _detach(plan: Plan) -> None:
    if plan.detached:
        mounts.detach()


def _enter_scope(plan: Plan) -> None:
    if plan.scoped:
        landlock.scope()


def _execute(plan: Plan) -> NoReturn:
    """Execute the first path that exists, as execvpe does: an error other than "missing" counts for more."""
    failure: OSError = FileNotFoundError(errno.ENOENT, "")
    for path in plan.paths:
        try:
            os.execve(path, plan.argv, plan.env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as exc:
            failure = exc
    raise failure
