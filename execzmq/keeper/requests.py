"""What each message of a server does to the table.

Owns the meaning of the messages. It must not know sockets or the loop: it answers through `Answers`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.launch import STREAM_NAMES, SpawnError
from execzmq.keeper.messages import PROTOCOL_VERSION, Message, launch_from
from execzmq.keeper.pty import can_splice_pty
from execzmq.keeper.spawn import spawn
from execzmq.keeper.table import Record, Table

FEATURE_SPLICE_PTY = "splice-pty"


class Answers(Protocol):
    """What a request may ask of the loop."""

    def set_mode(self, ends_with_connection: bool) -> None:
        """Decide what the end of this connection means."""

    def finish(self) -> None:
        """End the keeper after this turn."""

    def send(self, message: Message) -> None:
        """Send a message."""

    def send_record(self, op: str, record: Record) -> None:
        """Send a command with its descriptors."""

    def watch_report(self, record: Record) -> None:
        """Wait for the outcome of a release."""


class Requests:
    """Serve the messages of a server, one method for each kind."""

    def __init__(self, table: Table, limit: DescriptorLimit, answers: Answers) -> None:
        self._table = table
        self._limit = limit
        self._answers = answers
        self._handlers: dict[str, Callable[[Message, list[int]], None]] = {
            "hello": self._hello,
            "spawn": self._spawn,
            "release": self._release,
            "hold": self._hold,
            "mark": self._mark,
            "close": self._close,
            "forget": self._forget,
            "abandon": self._abandon,
            "quit": self._quit,
        }

    def serve(self, message: Message, fds: list[int]) -> None:
        """Serve one message; descriptors that are kept are taken out of `fds`.

        Raises:
            SpawnError: it cannot be done; the reason goes back to the server.
            MessageError: a field has a value that cannot be.
        """
        self._handlers[message["op"]](message, fds)

    def _hello(self, message: Message, fds: list[int]) -> None:
        """Say who this is, then hand over every command."""
        self._answers.set_mode(message["mode"] == "end")
        features = [FEATURE_SPLICE_PTY] if can_splice_pty() else []
        self._answers.send(
            {"op": "hello", "version": PROTOCOL_VERSION, "pid": os.getpid(), "features": features}
        )
        for record in self._table:
            self._answers.send_record("proc", record)
        self._answers.send({"op": "ready"})

    def _spawn(self, message: Message, fds: list[int]) -> None:
        """Start a command; one that is known is answered as it is, so that a repeat starts nothing."""
        record = self._table.get(message["id"])
        if record is None:
            launch = launch_from(message)
            named = dict(zip(message.get("fds", []), fds, strict=False))
            now = time.time()
            record = self._table.add(launch, spawn(launch, named, self._limit), now)
        self._answers.send_record("spawned", record)

    def _release(self, message: Message, fds: list[int]) -> None:
        record = self._table.find(message["id"])
        if record.released:
            raise SpawnError("not_held", None, f"process {record.process_id!r} is not held")
        if record.status is not None:
            raise SpawnError(
                "ended_while_held", None, f"process {record.process_id!r} ended before its release"
            )
        record.let_go()
        self._answers.watch_report(record)

    def _hold(self, message: Message, fds: list[int]) -> None:
        record = self._table.find(message["id"])
        if not fds:
            raise SpawnError("invalid_descriptor", None, "hold came without a descriptor")
        if message["name"] in STREAM_NAMES:
            raise SpawnError("invalid_descriptor", None, f"{message['name']!r} is the keeper's own name")
        record.hold(message["name"], fds.pop(0))

    def _mark(self, message: Message, fds: list[int]) -> None:
        marks = self._table.find(message["id"]).marks
        (marks.add if message["on"] else marks.discard)(message["flag"])

    def _close(self, message: Message, fds: list[int]) -> None:
        self._table.find(message["id"]).close_name(message["name"])

    def _forget(self, message: Message, fds: list[int]) -> None:
        """Drop all that have ended; the first that cannot be dropped is named when the others are."""
        refused: SpawnError | None = None
        for process_id in message["ids"]:
            try:
                record = self._table.find(process_id)
                if record.status is None:
                    raise SpawnError("running", None, f"process {process_id!r} still runs")
                self._table.forget(record)
            except SpawnError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _abandon(self, message: Message, fds: list[int]) -> None:
        """End a command that nobody wants, and forget it as soon as it has ended."""
        record = self._table.get(message["id"])
        if record is None:
            return
        record.abandoned = True
        record.kill()
        if record.status is not None:
            self._table.forget(record)

    def _quit(self, message: Message, fds: list[int]) -> None:
        if self._table.has_running:
            raise SpawnError("running", None, "commands still run under this keeper")
        self._answers.finish()
