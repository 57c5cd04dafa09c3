"""Processes without a command, for tests of what is around them. Owns nothing of the machine but a pidfd."""

import os
from pathlib import Path
from typing import Any

from execzmq.process.ending import End
from execzmq.process.index import Record
from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.readers import Readers
from execzmq.process.spec import ProcessSpec, spec_of
from execzmq.process.streams import PipeSource, StreamPump
from execzmq.types.events import Stream
from execzmq.types.params import ExecParams


class Notes:
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.ends = 0
        self.releases = 0
        self.strikes = 0
        self.pauses = 0
        self.troubles: list[OSError] = []
        self.recoveries = 0

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """Note an event."""
        self.events.append((record.kind, payload))

    def ended(self, process: ManagedProcess) -> None:
        """Count an end."""
        self.ends += 1

    def released(self, process: ManagedProcess) -> None:
        """Count a release."""
        self.releases += 1

    def time_is_over(self, process: ManagedProcess) -> None:
        """Count a time limit that has struck."""
        self.strikes += 1

    def paused(self, process: ManagedProcess) -> None:
        """Count a time that writers begin to wait."""
        self.pauses += 1

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """Note why the disk took nothing."""
        self.troubles.append(error)

    def recovered(self, process: ManagedProcess) -> None:
        """Count a log that stands on disk again."""
        self.recoveries += 1

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the events."""
        return [kind for kind, _ in self.events]


def make_spec(process_id: str = "p", instance: int = 1, budget: int = 1 << 20, **more: Any) -> ProcessSpec:
    """Return the spec of a start."""
    params = ExecParams(argv=(b"x",), **more)
    return spec_of(params, process_id, instance, b"/", budget, "session", "digest", 1.0)


def make_process(folder: Path, observer: Any, now: Any = lambda: 100.0, **more: Any) -> ManagedProcess:
    """Return a process that is being started."""
    spec = make_spec(**more)
    return ManagedProcess(spec, OutputLog(folder / spec.key, spec.instance, spec.log_budget), observer, now)


def start(
    process: ManagedProcess,
    streams: tuple[Stream, ...] = ("stdout", "stderr"),
    readers: Readers | None = None,
) -> dict[Stream, int]:
    """Let it run as this Python itself, and return the writing ends of its streams."""
    writers: dict[Stream, int] = {}
    pumps = []
    for stream in streams:
        reader, writers[stream] = os.pipe()
        os.set_blocking(reader, False)
        pumps.append(make_pump(process, stream, reader, readers or Readers()))
    process.started(os.getpid(), os.pidfd_open(os.getpid()), pumps, None)
    return writers


def make_pump(process: ManagedProcess, stream: Stream, reader: int, readers: Readers) -> StreamPump:
    """Return what moves the bytes of a pipe into the log of a process."""
    return StreamPump(
        stream,
        PipeSource(reader),
        process.log,
        before=process.streams.flush_others,
        commit=process.commit,
        ended=process.stream_ended,
        refused=process.disk.refused,
        clock=lambda: 100.0,
        readers=readers,
    )


def end(process: ManagedProcess, writers: dict[Stream, int], status: int | None = 0) -> None:
    """Let the command and its streams end."""
    for writer in writers.values():
        os.close(writer)
    writers.clear()
    process.exited(End(status, {}, process._clock()))
