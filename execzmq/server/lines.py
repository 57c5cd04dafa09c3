"""Own which connections the holders of shares have, so that they can be cut.

libzmq names the descriptor of a connection with what comes over it, but not when it ends. A number may be
another connection's by then; the inode of its socket is not.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Collection
from typing import NamedTuple

import zmq

_INTERNET = (socket.AF_INET, socket.AF_INET6)


class Connection(NamedTuple):
    """One connection, for as long as it lives."""

    fd: int
    inode: int


def is_alive(connection: Connection) -> bool:
    """Tell whether a connection is still there."""
    return _inode_of(connection.fd) == connection.inode


def user_of(frame: zmq.Frame) -> str | None:
    """Return the user id that ZAP gave the connection over which something came."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return None


def connection_of(frame: zmq.Frame) -> Connection | None:
    """Return over which connection something came, `None` where that is not known."""
    try:
        fd = int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return None
    inode = _inode_of(fd)
    return None if inode is None else Connection(fd, inode)


def _inode_of(fd: int) -> int | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None


class Lines:
    """The connections of each user that is to be cut when its time is over."""

    def __init__(self) -> None:
        self._of: dict[str, set[Connection]] = {}

    def note(self, user_id: str, connection: Connection | None) -> None:
        """Note that a user speaks over a connection."""
        if connection is not None:
            self._of.setdefault(user_id, set()).add(connection)

    def sweep(self) -> None:
        """Forget the connections that have ended."""
        for user_id, connections in list(self._of.items()):
            connections -= {one for one in connections if not is_alive(one)}
            if not connections:
                del self._of[user_id]

    def cut(self, user_id: str) -> int:
        """End every connection of a user; return how many there were.

        Raises:
            OSError: there is no descriptor to do it with.
        """
        connections = self._of.pop(user_id, set())
        return sum(map(cut, connections))

    def cut_unknown(self, ports: Collection[int]) -> int:
        """End every connection to one of these ports over which no known user has spoken; count them.

        Of those it is not known whose they are. Whoever is still let in connects again by itself.

        Raises:
            OSError: there is no descriptor to do it with.
        """
        known = set().union(*self._of.values())
        found = (Connection(fd, inode) for fd in _descriptors() if (inode := _inode_of(fd)) is not None)
        return sum(cut(one) for one in found if one not in known and _port_of(one) in ports)


def _descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/dev/fd")]


def _port_of(connection: Connection) -> int | None:
    """Return the port at which a connection by tcp came in, `None` where it is none, or has ended."""
    try:
        copy = os.dup(connection.fd)
    except OSError:
        if is_alive(connection):
            raise
        return None
    with socket.socket(fileno=copy) as held:
        try:
            held.getpeername()  # a listener has none
            return int(held.getsockname()[1]) if held.family in _INTERNET else None
        except OSError:
            return None


def cut(connection: Connection) -> bool:
    """End a connection; return whether it was still there.

    Raises:
        OSError: there is no descriptor to do it with.
    """
    # A descriptor of our own: libzmq may close its one at any moment, and the number be given to another.
    try:
        copy = os.dup(connection.fd)
    except OSError:
        if is_alive(connection):
            raise
        return False
    if _inode_of(copy) != connection.inode:
        os.close(copy)
        return False
    with socket.socket(fileno=copy) as held, contextlib.suppress(OSError):  # the other end may be quicker
        held.shutdown(socket.SHUT_RDWR)
    return True
