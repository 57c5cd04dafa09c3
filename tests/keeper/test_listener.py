"""Who may speak to a keeper."""

import os
import socket
import struct
from typing import cast

import pytest

from execzmq.keeper.listener import refusal


class Peer:
    """A connected socket as far as its credentials are asked for."""

    def __init__(self, pid: int, uid: int) -> None:
        self._credentials = struct.pack("iII", pid, uid, 0)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Return the credentials as the kernel does."""
        assert (level, option, size) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return self._credentials


@pytest.mark.parametrize(
    ("pid", "uid", "reason"),
    [
        (os.getppid(), os.getuid(), None),
        (os.getppid(), os.getuid() + 1, "wrong_user"),
        (os.getpid(), os.getuid(), "descendant"),
        (0, os.getuid(), None),
    ],
)
def test_peer(pid: int, uid: int, reason: str | None) -> None:
    """The own user is served, unless it is below the keeper; a pid of another namespace (0) is not."""
    refused = refusal(cast(socket.socket, Peer(pid, uid)))
    assert (refused and refused[0]) == reason
