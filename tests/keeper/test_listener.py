"""Who may speak to a keeper."""

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import cast

import pytest

from execzmq.keeper.client import KeeperRefused
from execzmq.keeper.listener import Listener, connect, refusal
from tests.keeper.harness import Harness


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


async def test_keeper_that_takes_no_connection_is_an_error_at_once(short_tmp: Path) -> None:
    """Where as many wait as may, one more would wait in the call, and the whole server with it."""
    folder = os.fsencode(short_tmp)
    listener = Listener(folder)
    waiting: list[socket.socket] = []
    try:
        with contextlib.suppress(BlockingIOError):
            while len(waiting) < 100:
                waiting.append(connect(folder))
        assert 0 < len(waiting) < 100
        with pytest.raises(KeeperRefused) as refused:
            await Harness().connect(short_tmp)
        assert refused.value.reason == "silent"
    finally:
        for one in waiting:
            one.close()
        listener.close()
