"""The output of all commands while no server reads it: moved into their logs, so that they run on.

Owns when that is done: from the end of a connection to the next one, never beside a server. It must not know
why. No error ends it: what the disk does not take stays where it is and is tried again later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from execzmq.keeper.loop import Loop
from execzmq.keeper.outlets import Outlet, outlets_of
from execzmq.keeper.table import Record

_TURN_BYTES = 1 << 18
"""Most bytes of one stream in one turn: a server that connects must not wait for a flood."""
_RETRY_SECONDS = 1.0


class _Stream:
    """One output of a command; `state` is what it shares with the other one."""

    def __init__(self, outlet: Outlet, state: _Command) -> None:
        self.outlet = outlet
        self.state = state


class _Command:
    """How much of a command's output may still be stored, None without a limit, and whether it is dropped."""

    def __init__(self, record: Record) -> None:
        self.left = record.drain_limit_bytes
        self.discards = "discard" in record.marks
        folder = record.folder or b""
        outlets = outlets_of(record.fds, folder, record.segment_bytes) if folder or self.discards else []
        self.streams = [_Stream(outlet, self) for outlet in outlets]

    def move(self, outlet: Outlet) -> int:
        if self.discards:
            return outlet.discard()
        moved = outlet.move(_TURN_BYTES if self.left is None else min(self.left, _TURN_BYTES))
        if self.left is not None:
            self.left -= moved
        return moved

    @property
    def is_full(self) -> bool:
        return not self.discards and self.left is not None and self.left <= 0


class Drain:
    """Move output while it is started.

    Args:
        loop: which tells of output.
        ended: called when a stream has come to its end.
    """

    def __init__(self, loop: Loop, ended: Callable[[], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._commands: dict[str, _Command] = {}
        self._refused: list[_Stream] = []
        self._retry_at = 0.0

    def start(self, records: Iterable[Record]) -> None:
        """Begin with all that these commands write."""
        for record in records:
            command = self._commands[record.process_id] = _Command(record)
            for stream in command.streams:
                self._watch(stream)
                if stream.outlet.has_rest:
                    self._serve(stream)

    def stop(self) -> None:
        """Move nothing any more; every file is closed. Idempotent."""
        for process_id in list(self._commands):
            self.drop(process_id)

    def drop(self, process_id: str) -> None:
        """Have nothing more to do with a command."""
        command = self._commands.pop(process_id, None)
        for stream in command.streams if command is not None else ():
            self._leave(stream)
        self._refused = [stream for stream in self._refused if stream.state is not command]

    @property
    def patience(self) -> float | None:
        """Return the seconds after which `turn` has something to do, None if it never has."""
        return max(0.0, self._retry_at - time.monotonic()) if self._refused else None

    def turn(self) -> None:
        """Try again what was refused, when it is time."""
        if not self._refused or time.monotonic() < self._retry_at:
            return
        refused, self._refused = self._refused, []
        for stream in refused:
            self._watch(stream)
            if stream.outlet.has_rest:
                self._serve(stream)

    def _watch(self, stream: _Stream) -> None:
        if stream.state.is_full:
            self._leave(stream)
        else:
            self._loop.watch(stream.outlet.fd, partial(self._serve, stream))

    def _leave(self, stream: _Stream) -> None:
        self._loop.unwatch(stream.outlet.fd)
        stream.outlet.close()

    def _serve(self, stream: _Stream) -> None:
        try:
            moved = stream.state.move(stream.outlet)
        except (OSError, MemoryError):
            # Whatever it is, an event that comes to nothing must not come again at once.
            self._refuse(stream)
            return
        if moved == 0:
            self._leave(stream)
            self._ended()
        elif stream.state.is_full:
            for one in stream.state.streams:
                self._leave(one)

    def _refuse(self, stream: _Stream) -> None:
        self._loop.unwatch(stream.outlet.fd)
        if not self._refused:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
        self._refused.append(stream)
