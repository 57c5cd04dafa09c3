"""The server's end of the keeper's socket.

Owns the connection and the requests that wait for an answer; received descriptors belong to whoever gets
them. It reads in a callback of the loop, without a task, so that an answer costs no more than its bytes. It
must not know the log or the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import Literal

from execzmq.keeper.asking import Asking, KeeperLost
from execzmq.keeper.channel import Packet
from execzmq.keeper.handover import ProcessExit, SpawnedProcess, exit_from, process_from
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.messages import (
    FEATURE_FOLLOWS_DEAD,
    FROM_KEEPER,
    PROTOCOL_VERSION,
    Message,
    MessageError,
    decode,
    encode,
    spawn_error_from,
)
from execzmq.keeper.outbox import Outbox
from execzmq.keeper.pending import fail, resolve
from execzmq.keeper.reaching import KeeperRefused, Reached, reach
from execzmq.keeper.roster import ExitCallback, Roster
from execzmq.keeper.start import KeeperStartError

__all__ = [
    "KeeperClient",
    "KeeperLost",
    "KeeperRefused",
    "KeeperStartError",
    "ProcessExit",
    "SpawnedProcess",
]

Mode = Literal["keep", "end"]

_ATTEMPTS = 3
_HELLO_SECONDS = 20.0
_log = logging.getLogger(__name__)


class KeeperClient(Asking):
    """Speak to a keeper. Made by `connect_or_launch`.

    Attributes:
        pid: the keeper's process id.
        version: the keeper's protocol version.
        features: what it can do here, such as `splice-pty`.
        follows_dead: whether the keeper before it was killed: what it had may be out of reach.
    """

    def __init__(
        self,
        reached: Reached,
        mode: Mode,
        on_process: Callable[[SpawnedProcess], None],
        on_exit: ExitCallback,
        on_lost: Callable[[], None],
    ) -> None:
        self.pid = 0
        self.version = 0
        self.features: frozenset[str] = frozenset()
        self._channel, self._process, self.follows_dead = reached
        self._mode = mode
        super().__init__(Roster(on_process, on_exit))
        self._on_lost = on_lost
        self._outbox = Outbox(reached.channel, self._lose)
        self._is_losing = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reached.channel.fileno(), self._on_readable)

    @classmethod
    async def connect_or_launch(
        cls,
        state_dir: str | bytes | os.PathLike[str],
        mode: Mode,
        *,
        on_process: Callable[[SpawnedProcess], None],
        on_exit: ExitCallback,
        on_lost: Callable[[], None],
    ) -> KeeperClient:
        """Take up the keeper of a state folder, or start one; returns when all its commands were handed over.

        Args:
            state_dir: the folder; this process must hold its lock.
            mode: what the end of the connection means: `keep` lets the commands run on, `end` ends them all.
            on_process: called for each command that the keeper has already.
            on_exit: called at each end with key, status (None where nobody knows it) and rusage; of one found
                ended, after `on_process`.
            on_lost: called once when the keeper has gone without being asked to.

        Raises:
            KeeperRefused: it serves somebody else, this process is one of its commands, or it is silent.
            KeeperStartError: none could be started.
            KeeperLost: each that was reached ended at once.
        """
        folder = os.fsencode(state_dir)
        for _ in range(_ATTEMPTS):
            client = cls(await reach(folder), mode, on_process, on_exit, on_lost)
            # A keeper may end just as it is found: the next attempt starts one.
            if await client._greet():
                return client
        raise KeeperLost("each keeper that was reached ended at once")

    async def wait_room(self) -> None:
        """Wait until what is sent goes at once, without copies of descriptors, or nothing goes any more."""
        await self._outbox.wait_empty()

    async def quit(self) -> None:
        """End the keeper; returns when it has ended, however long that takes. Cancelled, it may end or not.

        Raises:
            SpawnError: `running`, a command still runs; the keeper goes on.
        """
        if not self._is_closed:
            self._pending.end = self._loop.create_future()
            self._send({"op": "quit"})
            await self._pending.end
        if self._process:
            await asyncio.shield(self._process.ended)

    def close(self) -> None:
        """End the connection; `mode` says what becomes of the commands. Who waits gets KeeperLost."""
        self._farewells.flush()
        self._disconnect(KeeperLost("the connection to the keeper was closed"))

    async def aclose(self) -> None:
        """End the connection; in mode `end` wait until a keeper that this client started is no more.

        In mode `keep` such a keeper lives on for the next server and is not reaped by this process any more.
        """
        self.close()
        if self._process:
            await self._process.leave(ends=self._mode == "end")

    def kill(self) -> None:
        """Kill a keeper that does not answer, whoever started it: what it has not done yet it never will."""
        if self._process:
            self._process.kill()
        elif not self._is_closed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # the open connection says that the number is still its own

    async def _greet(self) -> bool:
        """Take over what the keeper has; False if it ended instead. Failed, it leaves nothing."""
        self._pending.ready = self._loop.create_future()
        self._send({"op": "hello", "version": PROTOCOL_VERSION, "mode": self._mode})
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await self._pending.ready
        except BaseException as exc:
            self.close()
            if self._process:
                self._process.kill()
            if isinstance(exc, KeeperLost):
                return False
            if isinstance(exc, TimeoutError):
                raise KeeperRefused("silent", "the keeper does not answer; is it stopped?") from None
            raise
        return True

    def _send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send now, or as soon as there is room; after the end of the connection nothing is sent."""
        if self._is_closed:
            self._pending.fail(KeeperLost("the keeper is not connected", was_asked=False))
            return
        try:
            self._outbox.send(encode(message), fds)
        except ConnectionError as exc:
            self._lose(exc)

    def _on_readable(self) -> None:
        """Take all that has come: a wake-up costs more than a packet."""
        while not self._is_closed:
            try:
                packet = self._channel.receive()
            except (EOFError, OSError) as exc:
                self._lose(exc)
                return
            if packet is None:
                return
            self._take(packet)

    def _take(self, packet: Packet) -> None:
        fds = packet.fds
        message = _message_of(packet)
        match message["op"]:
            case "spawned":
                self._on_spawned(message, fds, packet.cut)
            case "proc":
                self._on_known(message, fds, packet.cut)
            case "listening":
                self._on_listening(message, fds)
            case "exit":
                self._roster.ended(exit_from(message))
            case "released":
                resolve(self._pending.releases.pop(message["id"], None))
            case "error":
                self._on_error(message)
            case "hello":
                self.pid, self.version = message["pid"], message["version"]
                self.features = frozenset(message["features"])
                self.follows_dead |= FEATURE_FOLLOWS_DEAD in self.features
            case "ready":
                resolve(self._pending.ready)
            case "refused":
                fail(self._pending.ready, KeeperRefused(message["reason"], message["message"]))

    def _on_spawned(self, message: Message, fds: list[int], cut: bool) -> None:
        outcome = self._pending.spawns.pop(message["id"], None)
        if outcome is None or outcome.is_over or cut:
            _close_all(fds)
            self.abandon(message["id"])
            if outcome is not None:
                words = "this process has no descriptors left to take the command's"
                outcome.fail(SpawnError("too_many_descriptors", None, words))
            return
        outcome.succeed(self._roster.spawned(process_from(message, fds, self.pid)))

    def _on_listening(self, message: Message, fds: list[int]) -> None:
        outcome = self._pending.listeners.pop(message["id"], None)
        if outcome is None or outcome.is_over or len(fds) != 1:
            _close_all(fds)
            if outcome is not None:
                outcome.fail(SpawnError("listen_failed", None, "the listener was lost on the way"))
            return
        outcome.succeed(fds[0])

    def _on_known(self, message: Message, fds: list[int], cut: bool) -> None:
        if cut:
            _close_all(fds)
            self._lose(OSError("this process has no descriptors left to take the commands over"))
            return
        self._roster.found(process_from(message, fds, self.pid))

    def _on_error(self, message: Message) -> None:
        error = spawn_error_from(message)
        process_id = message.get("id") or ""
        if message["request"] == "adopt":
            self._roster.refused(process_id, error)
        elif not self._pending.refuse(message["request"], process_id, error):
            _log.warning("the keeper refused %s of %s: %s", message["request"], process_id, error)

    def _lose(self, cause: Exception) -> None:
        """The keeper has gone: by `quit` as asked for, otherwise everyone is told."""
        if self._is_closed or self._is_losing:
            return
        self._is_losing = True
        # The socket tells its error before the last words, which may be why the keeper refuses.
        for _ in range(2):
            self._on_readable()
        asked = self._pending.end is not None and not self._pending.end.done()
        greeting = self._pending.ready is None or not self._pending.ready.done()
        self._disconnect(KeeperLost(f"the keeper has gone: {str(cause) or 'it closed the connection'}"))
        if not asked and not greeting:
            self._on_lost()

    def _disconnect(self, error: KeeperLost) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._farewells.drop()
        self._loop.remove_reader(self._channel.fileno())
        self._outbox.close()
        self._channel.close()
        self._roster.clear()
        self._pending.fail(error)
        resolve(self._pending.end)


def _message_of(packet: Packet) -> Message:
    """Read a packet; what a newer keeper says beyond this program's knowledge is logged and means nothing."""
    try:
        return decode(packet.body, FROM_KEEPER)
    except MessageError as exc:
        _log.warning("from the keeper: %s", exc)
        _close_all(packet.fds)
        return {"op": ""}


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
