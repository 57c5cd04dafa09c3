"""A keeper as a child of its server: its start, and that it is reaped.

Owns the child's pidfd. It must not know what is said to a keeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, {root!r}); from execzmq.keeper.main import main; main()"
_SOFT_LIMIT = str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""The limit on descriptors of this process before a server raises it: that of its commands."""
_START_SECONDS = 20.0
_END_SECONDS = 10.0
"""Seconds within which a keeper that has lost its connection has ended all its commands and itself."""
_KILL_SECONDS = 1.0
_log = logging.getLogger(__name__)


class KeeperStartError(Exception):
    """A keeper could not be started; the text says why."""


class KeeperProcess:
    """A started keeper that is this process's child.

    Attributes:
        pid: its process id.
        ended: done when it has ended and been reaped.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._reap)

    @classmethod
    async def start(cls, state_dir: bytes) -> KeeperProcess:
        """Start a keeper and wait until it listens. Cancelled, it leaves none.

        Raises:
            KeeperStartError: it could not listen, or said nothing within 20 s.
        """
        reader, writer = os.pipe()
        try:
            try:
                keeper = cls(_popen(state_dir, writer))
            finally:
                os.close(writer)
            try:
                answer = await _read_answer(reader)
            except BaseException:
                keeper.kill()
                raise
        finally:
            os.close(reader)
        if answer != b"R":
            await keeper.ended
            raise KeeperStartError(
                f"the keeper did not start: {answer[1:].decode(errors='replace') or 'no reason given'}"
            )
        return keeper

    async def leave(self, *, ends: bool) -> None:
        """Have nothing more to do with a keeper that goes on, or that `ends`, which is waited for.

        One that does not end in time is killed.
        """
        if ends:
            await asyncio.wait([self.ended], timeout=_END_SECONDS)
            if not self.ended.done():
                _log.warning("the keeper, pid %d, did not end and was killed", self.pid)
                self.kill()
        self.close()

    def close(self) -> None:
        """Stop watching; a keeper that still runs goes on and is not reaped by this process any more."""
        if self._pidfd >= 0:
            pidfd, self._pidfd = self._pidfd, -1
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def kill(self) -> None:
        """End and reap a keeper that has no commands; takes what the kernel needs, at most a second."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        # One that waits for a dead disk cannot die now; the loop reaps it if it ever does.
        if poll.poll(_KILL_SECONDS * 1000):
            self._reap()

    def _reap(self) -> None:
        # Where SIGCHLD is ignored the kernel has reaped already.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.close()
        _resolve(self.ended)


def _popen(state_dir: bytes, ready: int) -> int:
    """Start the keeper's interpreter: without site and the user's settings it is up in milliseconds."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-I", "-c", _PROGRAM.format(root=_ROOT), state_dir, str(ready), _SOFT_LIMIT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"LC_CTYPE": "C.UTF-8"},
        pass_fds=(ready,),
        start_new_session=True,
    )
    # It is reaped through its pidfd, or by nobody if it outlives this process.
    process.returncode = 0
    return process.pid


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _read_answer(reader: int) -> bytes:
    """Read the keeper's word about its start; empty if it ended without one."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(reader, _resolve, readable)
    try:
        async with asyncio.timeout(_START_SECONDS):  # `wait_for` of Python 3.11 may lose a cancellation
            await readable
    except TimeoutError as exc:
        raise KeeperStartError(f"the keeper said nothing for {_START_SECONDS:.0f} s") from exc
    finally:
        loop.remove_reader(reader)
    return os.read(reader, 4096)
