"""Own the record of who did what: one line of JSON for each, in a file of the state folder of mode 0600."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from execzmq.server.access import Peer
from execzmq.settings import MIB

log = logging.getLogger("execzmq.server")

NAME = "audit.log"
LARGEST = 16 * MIB
"""Bytes after which the file becomes `audit.old.log`, in place of the one before."""


class AuditLog:
    """The record of one server name.

    Args:
        folder: of the state.
        clock: Unix seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = folder / NAME
        self._clock = clock
        self._has_failed = False

    def note(self, who: str, did: str, **details: Any) -> None:
        """Write one line; where it cannot be written the server's log says so, once, and the work goes on.

        Args:
            who: id of a share, or what stands for the server's own user.
            did: name of a method, or what else has happened.
        """
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        known = {name: value for name, value in details.items() if value not in (None, "", ())}
        line = json.dumps({"time": at, "who": who, "did": did, **known}, ensure_ascii=True) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            if not self._has_failed:
                log.error("%s cannot be written, and who does what is not recorded: %s", self.path, error)
            self._has_failed = True
        else:
            self._has_failed = False

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        try:
            os.write(fd, line)
            is_full = os.fstat(fd).st_size > LARGEST
        finally:
            os.close(fd)
        if is_full:
            os.replace(self.path, self.path.with_suffix(".old.log"))


_MOST_REMEMBERED = 4096
_REPEATABLE = ("signal", "resize", "terminate")
"""What can be asked for thousands of times a second of one process."""


class Recorder:
    """Decides what of the requests is recorded: what holders of shares do, and what ends the server.

    What the server's own user does on this machine otherwise is not: a process says itself who has ended it.
    Of input the first `write` of a session to a process stands for all; of what a share asks for again and
    again of one process, and of its refused requests, the 1st, 2nd, 4th … are noted, so that nobody can fill
    the record with them, and push out what stands there.
    """

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._written: set[tuple[str, str]] = set()
        self._refused: dict[str, int] = {}
        self._repeated: dict[tuple[str, str, str], int] = {}

    def begun(self, peer: Peer, session: str) -> None:
        """Note a session of a share."""
        if peer.share is not None:
            self._audit.note(peer.user_id, "connect", session=session, role=peer.role)

    def done(self, peer: Peer, name: str, process_id: str, session: str, ename: str) -> None:
        """Note a request that changes something."""
        if peer.share is None and name != "shutdown":
            return
        if ename:
            self._refuse(peer, name, process_id, ename)
        elif name in _REPEATABLE:
            self._repeat(peer, name, process_id, session)
        elif name != "write" or self._is_first(session, process_id):
            self._audit.note(peer.user_id, name, process_id=process_id, session=session)

    def _is_first(self, session: str, process_id: str) -> bool:
        if len(self._written) >= _MOST_REMEMBERED:
            self._written.clear()
        before = len(self._written)
        self._written.add((session, process_id))
        return len(self._written) > before

    def _repeat(self, peer: Peer, name: str, process_id: str, session: str) -> None:
        if len(self._repeated) >= _MOST_REMEMBERED:
            self._repeated.clear()
        key = peer.user_id, name, process_id
        count = self._repeated[key] = self._repeated.get(key, 0) + 1
        if count & (count - 1) == 0:
            so_far = count if count > 1 else None
            self._audit.note(peer.user_id, name, process_id=process_id, session=session, so_far=so_far)

    def _refuse(self, peer: Peer, name: str, process_id: str, ename: str) -> None:
        count = self._refused[peer.user_id] = self._refused.get(peer.user_id, 0) + 1
        if count & (count - 1) == 0:
            self._audit.note(
                peer.user_id, name, process_id=process_id[:64], refused=ename, refused_so_far=count
            )
