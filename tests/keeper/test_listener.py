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
from tests.keeper.harness import Harness, keeper, launch
from tests.support import wait_until


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


def test_a_name_that_was_removed_is_made_anew(short_tmp: Path) -> None:
    """Under the same descriptor, so that whoever waits for connections there goes on to."""
    folder = os.fsencode(short_tmp)
    listener = Listener(folder)
    number = listener.fileno()
    (short_tmp / "keeper.sock").unlink()
    listener.mend()
    listener.mend()
    assert listener.fileno() == number
    with connect(folder):
        accepted = listener.accept()
        assert accepted is not None
        accepted.close()
    short_tmp.rename(short_tmp.with_name("gone"))
    listener.mend()
    listener.close()


def test_the_name_of_another_keeper_stays(short_tmp: Path) -> None:
    """One that has lost its name to another neither takes it back nor away."""
    folder = os.fsencode(short_tmp)
    first = Listener(folder)
    (short_tmp / "keeper.sock").unlink()
    second = Listener(folder)
    first.mend()
    first.close()
    connect(folder).close()
    second.close()
    assert not list(short_tmp.iterdir())


async def test_an_orphaned_keeper_can_be_found_again(short_tmp: Path) -> None:
    """Its name may be removed while its server lives or after that; the next server has its commands."""
    async with keeper(short_tmp, "keep") as first:
        process = await first.client.spawn(launch("sleep", "1000"))
        process.close()
        (short_tmp / "keeper.sock").unlink()
    wait_until((short_tmp / "keeper.sock").exists)
    (short_tmp / "keeper.sock").unlink()
    wait_until((short_tmp / "keeper.sock").exists)
    async with keeper(short_tmp) as second:
        assert [found.pid for found in second.found.values()] == [process.pid]
    await first.reap()
