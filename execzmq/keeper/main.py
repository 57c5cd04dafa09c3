"""The keeper process: spawns, holds, reaps and remembers; one loop, one connection at a time.

Owns the listener, the connection and the table, and decides when output is drained: never while a server is
connected, which reads the streams itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from execzmq.keeper import signals, tree
from execzmq.keeper.channel import Channel, Packet
from execzmq.keeper.descriptors import DescriptorLimit
from execzmq.keeper.drain import Drain
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.listener import Listener, refusal
from execzmq.keeper.loop import Loop
from execzmq.keeper.messages import FROM_SERVER, Message, MessageError, decode, encode, error_message
from execzmq.keeper.namespaces import Placements
from execzmq.keeper.requests import Requests
from execzmq.keeper.strangers import Strangers
from execzmq.keeper.table import Record, Table

_PR_SET_CHILD_SUBREAPER = 36
_FIRST_CONNECTION_SECONDS = 30.0
_RETRY_SECONDS = 0.001
_LONGEST_RETRY_SECONDS = 0.1
_ORPHANED_SECONDS = 1.0
_KILL_SECONDS = 5.0

_CUT = SpawnError("too_many_descriptors", errno.EMFILE, "descriptors were lost on the way")


class Keeper:
    """Serve one state folder until no one needs it.

    Args:
        listener: where servers connect; closed by `close`.
        wakeup: gets a byte at each signal; closed by `close`.
        limit: the raised descriptor limit.
    """

    def __init__(self, listener: Listener, wakeup: int, limit: DescriptorLimit) -> None:
        self._listener = listener
        self._wakeup = wakeup
        self._table = Table()
        self._loop = Loop()
        self._drain = Drain(self._loop, self._unsettle)
        self._strangers = Strangers(self._loop, self._stranger_ended)
        self._placements = Placements(self._loop)
        self._requests = Requests(self._table, limit, self, follows_dead=listener.follows_dead)
        self._connection: Channel | None = None
        self._ends_with_connection = False
        self._finished = False
        self._retry_seconds = _RETRY_SECONDS
        self._first_deadline: float | None = time.monotonic() + _FIRST_CONNECTION_SECONDS
        self._settle_at = 0.0
        self._loop.watch(listener.fileno(), self._accept)
        self._loop.watch(wakeup, self._on_signal)

    def run(self) -> None:
        """Serve until the keeper is told to quit or is orphaned with nothing left to do."""
        while not self._finished:
            self._loop.serve(self._patience())
            self._turn()

    def close(self) -> None:
        """Close the sockets and every descriptor that is held."""
        self._drain.stop()
        self._placements.close()
        self._listener.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for record in self._table:
            self._table.forget(record)
        # A signal would still be written there: without a reader that is a signal again, without end.
        signal.set_wakeup_fd(-1)
        os.close(self._wakeup)

    # What a request may ask of the loop.

    def set_mode(self, ends_with_connection: bool) -> None:
        """Decide what the end of this connection means."""
        self._ends_with_connection = ends_with_connection

    def finish(self) -> None:
        """End after this turn."""
        self._finished = True
        self._loop.interrupt()

    def send(self, message: Message) -> None:
        """Send a message, later if there is no room; without a connection, or if it ends, never."""
        if self._connection is not None:
            body = encode(message)
            self._send_packet(self._connection, lambda: (body, ()))

    def send_record(self, op: str, record: Record) -> None:
        """Send a command with its descriptors, as they are when there is room for it."""
        if self._connection is not None:
            self._send_packet(
                self._connection, lambda: (encode(record.description(op)), list(record.fds.values()))
            )

    def send_descriptor(self, op: str, record: Record, name: str) -> None:
        """Send one descriptor of a command, or without it if it was closed before there was room."""
        if self._connection is not None:
            body = encode({"op": op, "id": record.process_id})
            self._send_packet(
                self._connection, lambda: (body, [record.fds[name]] if name in record.fds else [])
            )

    def watch_stranger(self, record: Record) -> None:
        """Wait for the end of a command that is nobody's child here."""
        self._strangers.watch(record)

    def place_listener(self, network: int, port: int, done: Callable[[int | SpawnError], None]) -> None:
        """Place a listener in a network, and call back with it or with what went wrong."""
        self._placements.start(network, port, done)

    # The loop's own work. Whatever becomes of the connection, the keeper lives on.

    def _send_packet(self, connection: Channel, build: Callable[[], tuple[bytes, Sequence[int]]]) -> None:
        try:
            if not connection.try_send(*build()):
                connection.send_later(build)
        except OSError:
            self._disconnect()

    def _patience(self) -> float | None:
        """Say how long the loop may sleep, in seconds; None while every change is an event."""
        waits = [self._strangers.patience]
        if self._connection is not None:
            waits.append(self._retry_seconds if self._connection.must_flush else None)
        elif self._first_deadline is not None:
            waits.append(max(0.0, self._first_deadline - time.monotonic()))
        else:
            waits += [self._drain.patience, max(0.0, self._settle_at - time.monotonic())]
        return min((wait for wait in waits if wait is not None), default=None)

    def _turn(self) -> None:
        """Do what no event announces."""
        self._strangers.turn()
        if self._connection is not None:
            if self._connection.must_flush:
                self._flush(self._connection)
        elif self._first_deadline is None:
            self._drain.turn()
            if time.monotonic() >= self._settle_at:
                self._settle_orphaned()
        elif time.monotonic() >= self._first_deadline:
            self._listener.leave_name()
            self.finish()

    def _flush(self, connection: Channel) -> None:
        """Send what waits. Nothing announces room for more descriptors: ask for it ever less often."""
        try:
            flushed = connection.flush()
        except OSError:
            self._disconnect()
        else:
            slower = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)
            self._retry_seconds = _RETRY_SECONDS if flushed else slower

    def _on_signal(self) -> None:
        os.read(self._wakeup, 4096)
        self._reap()

    def _reap(self) -> None:
        """Reap whoever has ended: commands, and grandchildren that lost their parent."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            record = self._table.ended(pid, status, _rusage(usage), time.time())
            if record is not None:
                record.end_waiting()
                self._announce_end(record)

    def _announce_end(self, record: Record) -> None:
        self._unsettle()
        if record.abandoned:
            self._drain.drop(record.process_id)
            self._table.forget(record)
        else:
            self.send({"op": "exit", **record.end()})

    def _stranger_ended(self, record: Record, status: int | None) -> None:
        record.end_as(status, {}, time.time())
        self._announce_end(record)

    def _accept(self) -> None:
        sock = self._listener.accept()
        if sock is None:
            # Without a free descriptor the connection goes on knocking: do not spin.
            time.sleep(_RETRY_SECONDS)
            return
        # The end of the old connection may wait behind this event: a server is not refused because of a
        # dead one.
        while not self._finished and self._on_connection():
            pass
        channel = Channel(sock)
        refused = refusal(sock)
        if refused is None and self._connection is not None:
            refused = ("busy", "another server is connected to this keeper")
        if refused is None:
            # Before the first descriptor is handed over: who is told of a stream reads it alone.
            self._drain.stop()
            self._connection, self._first_deadline = channel, None
            self._loop.watch(channel.fileno(), self._on_connection)
            return
        with contextlib.suppress(OSError):
            channel.try_send(encode({"op": "refused", "reason": refused[0], "message": refused[1]}))
        channel.close()

    def _on_connection(self) -> bool:
        """Serve the next packet, so that others get their turn in between; True if there was one."""
        if self._connection is None:
            return False
        try:
            packet = self._connection.receive()
            if packet is not None:
                self._serve_packet(packet)
        except (EOFError, OSError):
            self._disconnect()
            return False
        return packet is not None

    def _serve_packet(self, packet: Packet) -> None:
        try:
            message = decode(packet.body, FROM_SERVER)
            if packet.cut:
                raise _CUT
            self._requests.serve(message, packet.fds)
        except MessageError as exc:
            # What came without its memfd lacks all but its names.
            failure = _CUT if packet.cut else SpawnError(exc.reason, None, str(exc))
            self.send(error_message(exc.op, exc.process_id, failure))
        except SpawnError as exc:
            self.send(error_message(message["op"], message.get("id"), exc))
        except (LookupError, TypeError, ValueError) as exc:
            # A message of a program that is not ours: its commands' parent must not die of it.
            failure = SpawnError("bad_message", None, f"{message['op']}: {exc!r}")
            self.send(error_message(message["op"], message.get("id"), failure))
        finally:
            # What a request keeps it has taken out of the list.
            for fd in packet.fds:
                os.close(fd)

    def _disconnect(self) -> None:
        """The server has gone: what was never released ends, and in mode `end` all does."""
        if self._connection is None:
            return
        self._loop.unwatch(self._connection.fileno())
        self._connection.close()
        self._connection = None
        for record in self._table:
            if not record.released:
                record.kill()
        if self._ends_with_connection:
            self._end_all()
        else:
            self._drain.start(self._table)
            self._unsettle()

    def _unsettle(self) -> None:
        """Look at once whether something is left to do, should the keeper be orphaned."""
        self._settle_at = 0.0

    def _settle_orphaned(self) -> None:
        """Be found, write down what has ended; end when nothing runs and no output is left to hand over."""
        self._listener.mend()
        for record in self._table:
            record.close_outlived()
            if record.has_ended and not record.recorded:
                # A full disk may have room later: the record stays in memory until then.
                with contextlib.suppress(OSError):
                    record.write_exit()
        self._settle_at = time.monotonic() + _ORPHANED_SECONDS
        if all(record.recorded and record.is_drained() for record in self._table):
            self._listener.leave_name()
            self.finish()

    def _end_all(self) -> None:
        """Kill everything below this process, and what it has adopted; who cannot die in time is left."""
        for record in self._table:
            if record.adopted:
                record.kill()
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        deadline = time.monotonic() + _KILL_SECONDS
        while not tree.kill_descendants(os.getpid()) and time.monotonic() < deadline:
            self._loop.serve(_LONGEST_RETRY_SECONDS)
            # This may be called while reaping, when the signals have been read already.
            self._reap()
        self.finish()


def _rusage(usage: Any) -> dict[str, float]:
    """Write what the kernel counted: times in seconds, memory in bytes."""
    return {"user": usage.ru_utime, "system": usage.ru_stime, "max_rss": usage.ru_maxrss * 1024}


def _detach(ready: int) -> None:
    """Leave what this process was started in: session, folder, descriptors."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    os.chdir("/")
    # An inherited lock would outlive its server. 0, 1 and 2 are /dev/null.
    if ready > 3:
        os.closerange(3, ready)
    os.closerange(max(ready + 1, 3), os.sysconf("SC_OPEN_MAX"))
    os.set_inheritable(ready, False)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main() -> None:
    """Run a keeper.

    Arguments are the state folder, the descriptor that gets one byte when it listens, and the soft limit on
    descriptors that its commands get.

    If it cannot listen, the reason is written to that descriptor instead and the exit status is 1.
    """
    state_dir, ready = os.fsencode(sys.argv[1]), int(sys.argv[2])
    _detach(ready)
    wakeup = signals.take_over()
    limit = DescriptorLimit(int(sys.argv[3]))
    try:
        listener = Listener(state_dir)
    except OSError as exc:
        os.write(ready, f"E{exc}".encode())
        sys.exit(1)
    keeper = Keeper(listener, wakeup, limit)
    # What exists by now stays: a forked child that collects garbage would copy all of it.
    gc.freeze()
    os.write(ready, b"R")
    os.close(ready)
    try:
        keeper.run()
    finally:
        keeper.close()
