"""What each message of a server does to the table.

Owns the meaning of the messages. It must not know sockets or the loop: it answers through `Answers`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.launch import SEGMENT_BYTES, STREAM_NAMES, SpawnError
from execzmq.keeper.messages import (
    FEATURE_FOLLOWS_DEAD,
    PROTOCOL_VERSION,
    PROXY,
    Message,
    error_message,
    launch_from,
    optional_raw,
)
from execzmq.keeper.namespaces import open_network
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

    def send_descriptor(self, op: str, record: Record, name: str) -> None:
        """Send one descriptor of a command."""

    def watch_stranger(self, record: Record) -> None:
        """Wait for the end of a command that is nobody's child here."""

    def place_listener(self, network: int, port: int, done: Callable[[int | SpawnError], None]) -> None:
        """Place a listener in a network, and call back with it or with what went wrong."""


class Requests:
    """Serve the messages of a server, one method for each kind.

    Args:
        follows_dead: the keeper before this one was killed, and not all that it had may have come here.
    """

    def __init__(
        self, table: Table, limit: DescriptorLimit, answers: Answers, *, follows_dead: bool = False
    ) -> None:
        self._table = table
        self._follows_dead = follows_dead
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
            "adopt": self._adopt,
            "listen": self._listen,
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
        if self._follows_dead:
            features.append(FEATURE_FOLLOWS_DEAD)
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

    def _adopt(self, message: Message, fds: list[int]) -> None:
        """Hold a command of a keeper that has died; of one that is known the descriptors are closed."""
        if self._table.get(message["id"]) is None:
            record = adopted_from(message, fds)
            fds.clear()
            self._table.adopt(record)
            if not record.has_ended:
                self._answers.watch_stranger(record)

    def _release(self, message: Message, fds: list[int]) -> None:
        record = self._table.find(message["id"])
        if record.released:
            raise SpawnError("not_waiting", None, f"process {record.process_id!r} waits at no gate")
        if record.has_ended:
            words = f"process {record.process_id!r} ended before its release"
            raise SpawnError("ended_while_waiting", None, words)
        record.let_go()
        self._answers.send({"op": "released", "id": record.process_id})

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
                if not record.has_ended:
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
        if record.has_ended:
            self._table.forget(record)

    def _listen(self, message: Message, fds: list[int]) -> None:
        """Place a listener in the network of a process, and hold it with a command."""
        record = self._table.find(message["id"])
        if not 0 < message["port"] < 65_536:
            raise SpawnError("bad_message", None, f"port {message['port']} cannot be")
        if not fds:
            raise SpawnError("invalid_descriptor", None, "listen came without a descriptor")
        network = open_network(fds[0])
        try:
            self._answers.place_listener(network, message["port"], partial(self._on_placed, record))
        except OSError as exc:
            words = f"no listener could be placed: {exc.strerror}"
            raise SpawnError("listen_failed", exc.errno, words) from exc
        finally:
            os.close(network)

    def _on_placed(self, record: Record, placed: int | SpawnError) -> None:
        if isinstance(placed, SpawnError):
            self._answers.send(error_message("listen", record.process_id, placed))
        elif self._table.get(record.process_id) is record:
            record.hold(PROXY, placed)
            self._answers.send_descriptor("listening", record, PROXY)
        else:
            os.close(placed)
            gone = SpawnError("unknown_process", None, f"process {record.process_id!r} was forgotten")
            self._answers.send(error_message("listen", record.process_id, gone))

    def _quit(self, message: Message, fds: list[int]) -> None:
        if self._table.has_running:
            raise SpawnError("running", None, "commands still run under this keeper")
        self._answers.finish()


def adopted_from(message: Message, fds: list[int]) -> Record:
    """Make the record that an `adopt` message describes; the descriptors become the record's.

    Raises:
        SpawnError: a descriptor is missing. LookupError, TypeError, ValueError: a field is missing or wrong.
    """
    names = message["names"]
    if len(names) != len(fds) or "pidfd" not in names:
        raise SpawnError("invalid_descriptor", None, "adopt came without all of its descriptors")
    named = dict(zip(names, fds, strict=True))
    record = Record(message["id"], message["pid"], named, message["started_at"], adopted=True)
    record.folder = optional_raw(message.get("folder"))
    record.drain_limit_bytes = message.get("drain_limit_bytes")
    record.segment_bytes = int(message.get("segment_bytes", SEGMENT_BYTES))
    record.marks = set(message.get("marks", ()))
    if message.get("ended_at") is not None:
        record.end_as(message.get("status"), message.get("rusage", {}), message["ended_at"])
    return record
