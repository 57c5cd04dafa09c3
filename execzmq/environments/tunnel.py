"""Own the way to a server by ssh: it is found or started there, its sockets come here, and that is kept up.

One ssh carries everything, so one logs in once. It is begun anew, at growing intervals, when it has ended;
clients that use the sockets meanwhile meet nobody, and go on by themselves. Knows no protocol of ours.
"""

from __future__ import annotations

import asyncio
import os

from execzmq import connection
from execzmq.connection import ConnectionInfo
from execzmq.environments import ssh_words
from execzmq.environments.model import Ssh
from execzmq.environments.ssh_child import SshChild
from execzmq.environments.ssh_folder import SshFolder
from execzmq.errors import AuthenticationFailed, ConnectionFailed, ExecZMQError

OPEN_SECONDS = 60.0
"""Seconds for the way to a server: to log in, and to start one there."""
_AGAIN_SECONDS = 30.0
_PAUSE_FIRST = 0.1
_PAUSE_LAST = 5.0
"""Seconds between two attempts to be connected again, at first and in the end."""
_PAUSE_REFUSED = 60.0


class Tunnel:
    """A way that is open; made by `open`, ended by `aclose`.

    Attributes:
        info: how the server is reached from here.
    """

    info: ConnectionInfo

    def __init__(self, name: str, ssh: Ssh) -> None:
        self._name, self._ssh = name, ssh
        self._folder = SshFolder(name)
        self._pid = os.getpid()
        self._problem = ""
        self._child: SshChild | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._there: ConnectionInfo

    @classmethod
    async def open(cls, name: str, ssh: Ssh, *, start: bool) -> Tunnel:
        """Open the way to an environment's server. Cancelling leaves nothing here; a server may have started.

        Args:
            name: of the environment.
            start: start a server there where none runs.

        Raises:
            ConnectionFailed: the machine cannot be reached, has no execzmq, or nothing runs there.
            AuthenticationFailed: its host key is not the known one, or it does not let us in.
            VersionMismatch: its execzmq is too old.
            RequestTimeout: it has taken more than a minute.
        """
        tunnel = cls(name, ssh)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                lent = await tunnel._connect(ssh_words.lend_script(ssh, start=start))
                tunnel._there = connection.parse(f"environment {name}: what {ssh.destination} lends", lent)
                tunnel.info = ssh_words.forwarded(tunnel._there, str(tunnel._folder.path))
                await tunnel._forward()
        except BaseException as error:
            await tunnel.aclose()
            if isinstance(error, TimeoutError) and not isinstance(error, ExecZMQError):
                raise ssh_words.late(name, ssh, OPEN_SECONDS) from None
            raise
        tunnel._folder.tell(is_up=True)
        tunnel._keeping = asyncio.create_task(tunnel._keep())
        return tunnel

    @property
    def problem(self) -> str:
        """Say why the way is broken at the moment; empty where it is not known to be."""
        return self._problem

    def explain(self, error: ExecZMQError) -> ExecZMQError:
        """Return the error of who has not met the server at the end of the way: ssh may have said why."""
        said = self._child.said if self._child is not None else ()
        return ssh_words.not_met(self._name, self._ssh, said, error)

    async def aclose(self) -> None:
        """Close the way; idempotent. The server lives on. In a forked child nothing is touched."""
        if os.getpid() != self._pid:
            return
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait((keeping,))
        try:
            await self._end_child()
        finally:
            self._folder.close()

    async def _keep(self) -> None:
        while True:
            assert self._child is not None
            status = await self._child.ended()
            self._problem = ssh_words.why_ended(self._name, self._ssh, status, self._child.said).message
            self._folder.tell(is_up=False)
            pause = _PAUSE_FIRST
            while not await self._is_open_again():
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_LAST)
            self._folder.tell(is_up=True)
            self._problem = ""

    async def _is_open_again(self) -> bool:
        """Try to open the same way again; the server at its end is looked for by nobody."""
        try:
            async with asyncio.timeout(_AGAIN_SECONDS):
                await self._connect(ssh_words.hold_script())
                await self._forward()
        except TimeoutError:
            self._problem = ssh_words.late(self._name, self._ssh, _AGAIN_SECONDS).message
        except AuthenticationFailed as error:  # who is refused too often may be shut out
            self._problem = error.message
            await asyncio.sleep(_PAUSE_REFUSED)
        except ExecZMQError as error:
            self._problem = error.message
        except OSError as error:
            self._problem = f"environment {self._name}: {error}"
        else:
            return True
        return False

    async def _connect(self, script: str) -> bytes:
        """Begin an ssh, and return what the far end lends."""
        await self._end_child()
        self._folder.clear()
        child = await SshChild.start(ssh_words.connect_argv(self._ssh, self._folder.control, script))
        self._child = child
        lent = await child.lent()
        if lent is not None:
            return lent
        raise ssh_words.why_ended(self._name, self._ssh, await child.ended(), child.said)

    async def _forward(self) -> None:
        words = ssh_words.forward_argv(self._folder.control, self._there, str(self._folder.path))
        asked = await SshChild.start(words, "none")
        try:
            status = await asked.ended()
        finally:
            await asked.aclose()
        if status:
            said = " ".join(asked.said) or f"status {status}"
            raise ConnectionFailed(f"environment {self._name}: ssh does not forward the sockets: {said}")

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.aclose()
