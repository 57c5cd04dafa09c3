"""What a server may ask of its keeper, each a message of its own with what is to come of it.

Owns who waits for which answer. It must not know how a message travels, or how a connection begins and ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from execzmq.keeper.diagnose import explain
from execzmq.keeper.farewells import Farewells
from execzmq.keeper.handover import Orphan, SpawnedProcess, adopt_message
from execzmq.keeper.launch import Launch, SpawnError, check_launch
from execzmq.keeper.messages import Message, spawn_message
from execzmq.keeper.outcome import Outcome
from execzmq.keeper.pending import Pending
from execzmq.keeper.roster import Roster


class KeeperLost(Exception):
    """The connection to the keeper has ended, and with it the answer that was waited for.

    Attributes:
        was_asked: whether the keeper may have got the request.
    """

    def __init__(self, message: str, *, was_asked: bool = True) -> None:
        super().__init__(message)
        self.was_asked = was_asked


class Asking:
    """The requests of a server, sent by `_send` of who is connected.

    Args:
        roster: the running commands.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._pending = Pending()
        self._farewells = Farewells(lambda ids: self._send({"op": "forget", "ids": ids}))

    def _send(self, message: Message, fds: Sequence[int] = ()) -> None:
        raise NotImplementedError

    def spawn(self, launch: Launch, fds: Mapping[str, int] | None = None) -> Outcome[SpawnedProcess]:
        """Start a command.

        Args:
            launch: what to start.
            fds: the passed descriptors by name; they stay the caller's and may be closed at once.

        Returns:
            What becomes of it: the command, or SpawnError (nothing is left) or KeeperLost. If it is
            cancelled, the command is killed and forgotten as soon as the keeper has answered, and its
            descriptors are closed.

        Raises:
            ValueError: a spawn of that process_id still waits for its answer.
            KeyError: `fds` lacks a descriptor that the launch names.
        """
        outcome = self._pending.spawn(launch.process_id)
        try:
            check_launch(launch)
            self._send(spawn_message(launch), [(fds or {})[name] for name in launch.descriptor_names])
        except (SpawnError, OSError, KeyError) as exc:
            self._pending.spawns.pop(launch.process_id, None)
            if isinstance(exc, KeyError):
                raise
            outcome.fail(explain(launch, "descriptors", exc.errno or 0) if isinstance(exc, OSError) else exc)
        return outcome

    def give_up(self, process_id: str) -> None:
        """Let a spawn fail with KeeperLost; the command is killed if the keeper ever answers with it."""
        self._pending.give_up(process_id, KeeperLost("the keeper does not answer"))

    def release(self, process_id: str) -> asyncio.Future[None]:
        """Let a command run that waits at its gate.

        Returns:
            A future that is done when it was let go; it fails with SpawnError if it has ended before, or
            KeeperLost.
        """
        future = self._pending.releases[process_id] = asyncio.get_running_loop().create_future()
        self._send({"op": "release", "id": process_id})
        return future

    def hold(self, process_id: str, name: str, fd: int) -> None:
        """Let the keeper hold a descriptor with a command; it stays the caller's too.

        Raises:
            OSError: it is closed, or none is free to send it.
        """
        self._send({"op": "hold", "id": process_id, "name": name}, [fd])

    def listen(self, process_id: str, pidfd: int, port: int) -> Outcome[int]:
        """Let the keeper place a listener on the loopback of a process's own network, held with a command.

        Args:
            process_id: the command with which the keeper holds it, under the name `proxy`.
            pidfd: the process whose network it is, such as the first one of a sandbox; it stays the caller's.
            port: 1 to 65,535.

        Returns:
            The listener's descriptor, which is the caller's; or SpawnError or KeeperLost. If it is cancelled,
            the descriptor is closed here; the keeper's goes with the command.

        Raises:
            ValueError: a listener of that command still waits for its answer.
        """
        outcome = self._pending.listen(process_id)
        try:
            self._send({"op": "listen", "id": process_id, "port": port}, [pidfd])
        except OSError as exc:
            self._pending.listeners.pop(process_id, None)
            words = f"the keeper could not be asked for a listener: {exc.strerror}"
            outcome.fail(SpawnError("listen_failed", exc.errno, words))
        return outcome

    def adopt(self, orphan: Orphan) -> None:
        """Let the keeper hold a command whose own one has died; the descriptors stay the caller's too.

        Where it cannot, `on_exit` is called without a status, since nobody will know how the command ended.
        """
        self._roster.adopted(orphan)
        try:
            self._send(adopt_message(orphan), list(orphan.fds.values()))
        except OSError as exc:
            self._roster.refused(orphan.process_id, exc)

    def mark(self, process_id: str, flag: str, on: bool = True) -> None:
        """Leave a flag (`degraded`, `discard`) with a command for the next server, or take it away."""
        self._send({"op": "mark", "id": process_id, "flag": flag, "on": on})

    def close_name(self, process_id: str, name: str) -> None:
        """Let the keeper close its copy of a descriptor: an end is seen only when both copies are closed."""
        self._send({"op": "close", "id": process_id, "name": name})

    def forget(self, process_id: str) -> None:
        """Let the keeper drop an ended command and all its descriptors, soon: many are told at once."""
        self._farewells.add(process_id)

    def abandon(self, process_id: str) -> None:
        """Let the keeper kill a command's group if it runs, and forget it without an `on_exit`."""
        self._roster.drop(process_id)
        self._send({"op": "abandon", "id": process_id})
