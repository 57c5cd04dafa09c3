"""From a launch to a running command and our ends of its descriptors, all or nothing.

Owns the start itself. A plain command goes by `vfork`; one that needs a terminal, limits, control groups or
descriptors at numbers that are taken goes by fork and `child`, which can do all but takes longer. It must
not know the keeper's table or its socket; who calls it reaps.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Mapping
from typing import NamedTuple

from execzmq.keeper import child, tree, vfork
from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.diagnose import candidates, explain
from execzmq.keeper.launch import Launch, SpawnError, Tty, check_launch
from execzmq.keeper.streams import Streams

__all__ = ["Launch", "SpawnError", "Spawned", "Tty", "spawn"]


class Spawned(NamedTuple):
    """A started command; the caller owns all of its descriptors and must reap it.

    Attributes:
        pid: its process id, also its session and group.
        pidfd: a descriptor of the process.
        fds: our ends by name: `stdin`, `stdout`, `stderr`, or `pty` with the pipe `mid_r`, `mid_w`. Non-
            blocking.
        release: a byte written here lets a waiting command run, -1 if it does not wait.
    """

    pid: int
    pidfd: int
    fds: dict[str, int]
    release: int = -1


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


def _start(launch: Launch, streams: Streams, limit: DescriptorLimit | None) -> Spawned:
    """Start by the cheapest way that can do it, and end it again if anything is missing then."""
    with contextlib.ExitStack() as undoing:
        release = -1
        if launch.gate is not None:
            release = os.dup(streams.theirs[launch.passed[launch.gate]])
            undoing.callback(os.close, release)
        if vfork.can_start(launch, streams.theirs):
            pid = vfork.start(launch, streams.theirs, limit)
        else:
            pid = _start_forked(launch, streams, limit)
        undoing.callback(os.waitpid, pid, 0)
        undoing.callback(tree.kill_from, pid)
        spawned = Spawned(pid, os.pidfd_open(pid), streams.ours, release)
        undoing.pop_all()
    return spawned


def _start_forked(launch: Launch, streams: Streams, limit: DescriptorLimit | None) -> int:
    """Start by fork, with what a command may need between fork and exec."""
    report, their_report = os.pipe()
    try:
        try:
            pid = _fork(_plan(launch, streams, limit, their_report))
        finally:
            os.close(their_report)
        failure = child.parse_report(os.read(report, 64))
    finally:
        os.close(report)
    if failure is not None:
        os.waitpid(pid, 0)
        raise explain(launch, *failure)
    return pid


def _plan(launch: Launch, streams: Streams, limit: DescriptorLimit | None, report: int) -> child.Plan:
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
        terminal=launch.tty is not None and launch.tty.controls,
        limits=limits,
        joins=launch.joins,
        scoped=launch.scoped,
        detached=launch.detached,
        report=report,
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
