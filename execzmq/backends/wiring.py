"""Own the way from the descriptors of a spawned command to the pumps and the feeder of its process."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from execzmq.keeper.client import SpawnedProcess
from execzmq.process.feeder import StdinFeeder
from execzmq.process.managed import ManagedProcess
from execzmq.process.stdin import StdinQueue
from execzmq.process.streams import PipeSource, Source, StreamPump, TerminalSource
from execzmq.types.events import Stream

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend


def connect_streams(
    backend: LocalBackend, process: ManagedProcess, spawned: SpawnedProcess, *, adopted: bool = False
) -> tuple[list[StreamPump], StdinFeeder | None]:
    """Take over the descriptors of a command; those of no use here are closed.

    Raises:
        OSError: no descriptor is free; all of the command's are closed.
    """
    fds = spawned.fds
    try:
        writer = os.dup(fds["pty"]) if "pty" in fds else fds.pop("stdin", -1)
    except OSError:
        spawned.close()
        raise
    pumps = [_pump(backend, process, stream, source) for stream, source in _sources(fds)]
    feeder = None
    if writer != -1:
        feeder = _feeder(backend, process, writer, fds.pop("in", -1), adopted)
    for name in ("pty", "stdout", "stderr", "mid_r", "mid_w"):
        fds.pop(name, None)
    pidfd, spawned.pidfd = spawned.pidfd, -1
    spawned.close()
    spawned.pidfd = pidfd
    return pumps, feeder


def _sources(fds: dict[str, int]) -> list[tuple[Stream, Source]]:
    if "pty" in fds:
        return [("stdout", TerminalSource(fds["pty"], fds["mid_r"], fds["mid_w"]))]
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    return [(name, PipeSource(fds[name])) for name in streams if name in fds]


def _pump(backend: LocalBackend, process: ManagedProcess, stream: Stream, source: Source) -> StreamPump:
    return StreamPump(
        stream,
        source,
        process.log,
        before=process.streams.flush_others,
        commit=process.commit,
        ended=process.stream_ended,
        refused=process.disk.refused,
        clock=asyncio.get_running_loop().time,
        readers=backend.readers,
    )


def _feeder(
    backend: LocalBackend, process: ManagedProcess, writer: int, held: int, adopted: bool
) -> StdinFeeder:
    key, terminal, folder = process.spec.key, process.spec.tty, process.log.folder

    def hold(fd: int) -> bool:
        backend.keeper.hold(key, "in", fd)
        return True

    def drained() -> None:
        backend.keeper.close_name(key, "stdin")

    if adopted:
        queue = StdinQueue.recover(folder, writer, held, terminal=terminal, on_segment=hold)
    else:
        queue = StdinQueue(folder, writer, terminal=terminal, on_segment=hold)
    return StdinFeeder(queue, writer, drained=drained)
