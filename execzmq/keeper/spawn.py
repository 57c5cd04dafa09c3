"""From a launch to a running command and our ends of its descriptors, all or nothing.

Owns the start itself. A plain command goes by `vfork`; one that needs a terminal, limits, descriptors at
given numbers or a release goes by fork and `child`, which can do all but takes longer. It must not know the
keeper's table or its socket; who calls it reaps.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Mapping
from typing import NamedTuple

from execzmq.keeper import child, vfork
from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.diagnose import candidates, explain
from execzmq.keeper.launch import Launch, SpawnError, Tty, check_launch
from execzmq.keeper.streams import Streams

__all__ = ["Launch", "SpawnError", "Spawned", "Tty", "read_report", "spawn"]


class Spawned(NamedTuple):
    """A started command; the caller owns all of its descriptors and must reap it.

    Attributes:
        pid: its process id, also its session and group.
        pidfd: a descriptor of the process.
        fds: our ends by name: `stdin`, `stdout`, `stderr`, or `pty` with the pipe `mid_r`, `mid_w`. Non-
            blocking.
        release: a byte written here lets a held command run, -1 if it is not held.
        report: where a held command reports that it could not be executed; ends when it was. -1 if not held.
    """

    pid: int
    pidfd: int
    fds: dict[str, int]
    release: int = -1
    report: int = -1


def spawn(launch: Launch, fds: Mapping[str, int], limit: DescriptorLimit | None = None) -> Spawned:
    """Start a command.

    Args:
        launch: what to start.
        fds: the passed descriptors by name; they stay the caller's.
        limit: the raised descriptor limit that the command must not inherit; None if it was not raised.

    Raises:
        SpawnError: it cannot be started; nothing is left of it.
    """
    check_launch(launch)
    names = launch.descriptor_names
    if names and (missing := [name for name in names if name not in fds]):
        words = f"descriptors did not come along: {missing}"
        raise SpawnError("invalid_descriptor", None, words, {"missing": missing})
    try:
        with Streams(launch, fds) as streams:
            spawned = _start(launch, streams, limit)
            streams.take()
    except OSError as exc:
        raise explain(launch, "descriptors", exc.errno or 0) from exc
    return spawned


def read_report(launch: Launch, report: bytes) -> SpawnError | None:
    """Say why a released command could not be executed, None if it was."""
    failure = child.parse_report(report)
    return None if failure is None else explain(launch, *failure)


def _start(launch: Launch, streams: Streams, limit: DescriptorLimit | None) -> Spawned:
    """Start by the cheapest way that can do it, and end it again if anything is missing then."""
    release, report = -1, -1
    if launch.held:
        pid, release, report = _start_held(launch, streams, limit)
    elif launch.tty is not None or launch.limits or launch.passed or not vfork.IS_KNOWN:
        pid = _start_forked(launch, streams, limit)
    else:
        pid = vfork.start(launch, streams.theirs, limit)
    try:
        return Spawned(pid, os.pidfd_open(pid), streams.ours, release, report)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for fd in (release, report):
            if fd >= 0:
                os.close(fd)
        raise


def _start_forked(launch: Launch, streams: Streams, limit: DescriptorLimit | None) -> int:
    """Start by fork, with what a command may need between fork and exec."""
    report, their_report = os.pipe()
    try:
        try:
            pid = _fork(_plan(launch, streams, limit, their_report))
        finally:
            os.close(their_report)
        failure = read_report(launch, os.read(report, 64))
    finally:
        os.close(report)
    if failure is not None:
        os.waitpid(pid, 0)
        raise failure
    return pid


def _start_held(launch: Launch, streams: Streams, limit: DescriptorLimit | None) -> tuple[int, int, int]:
    """Start by fork up to the point where everything is set up and only the release is missing."""
    with contextlib.ExitStack() as undoing:
        report, their_report = os.pipe()
        undoing.callback(os.close, report)
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, their_report)
            their_release, release = os.pipe()
            undoing.callback(os.close, release)
            closing.callback(os.close, their_release)
            pid = _fork(_plan(launch, streams, limit, their_report, their_release))
        first = os.read(report, 64)
        if first != child.READY:
            os.waitpid(pid, 0)
            raise read_report(launch, first) or SpawnError(
                "spawn_failed", None, "it was ended before it could be held"
            )
        undoing.pop_all()
    return pid, release, report


def _plan(
    launch: Launch, streams: Streams, limit: DescriptorLimit | None, report: int, release: int = -1
) -> child.Plan:
    limits = [] if limit is None else [(resource.RLIMIT_NOFILE, limit.inherited)]
    for name, pair in launch.limits.items():
        soft, hard = (resource.RLIM_INFINITY if value is None else value for value in pair)
        limits.append((getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard)))
    return child.Plan(
        paths=candidates(launch),
        argv=list(launch.argv) if launch.arg0 is None else [launch.arg0, *launch.argv[1:]],
        env=launch.env,
        cwd=launch.cwd or b"/",
        umask=launch.umask,
        descriptors=streams.theirs,
        terminal=launch.tty is not None,
        limits=limits,
        report=report,
        release=release,
    )


def _fork(plan: child.Plan) -> int:
    """Fork with all signals blocked, so that none meets the keeper's handlers in the child."""
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            child.become(plan)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid
