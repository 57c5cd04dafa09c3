"""Own how a server takes over from a living one of its name: find it, end it, have its folder.

Only the process that is seen to hold the lock is ever signalled. Blocks: nothing else runs at that time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import struct
import time
from dataclasses import replace
from pathlib import Path

from execzmq import connection
from execzmq.errors import Conflict, ConnectionFailed
from execzmq.keeper import listener, procfs
from execzmq.keeper.tree import is_descendant
from execzmq.server.locks import Holder, holder_of
from execzmq.server.state import StateFolder, check_format

log = logging.getLogger("execzmq.server")

_HANGUP_SECONDS = 0.3
_KILL_SECONDS = 10.0
_LOOK_SECONDS = 3.0
"""Seconds for a holder to show itself: one that has just begun, or lost the lock's file, needs a moment."""
_LOOK_AGAIN = 0.005


def take_over(name: str) -> StateFolder:
    """Open the state folder of a name; whoever serves it is ended and leaves its commands to the keeper.

    Raises:
        Conflict: the one who serves it cannot be seen or be ended from here, or is this process itself.
        ConnectionFailed: the folder is not this user's own, or this is a command of the keeper's, or the
            keeper is stopped.
        VersionMismatch: a later version has written the folder. The one who serves it goes on.
    """
    folder = connection.state_folder(name)
    check_format(folder)
    _check_keeper(folder)
    limit = time.monotonic() + _LOOK_SECONDS
    while True:
        try:
            return StateFolder(name)
        except Conflict:
            with holder_of(folder) as holder:
                if holder is not None and holder.pid != os.getpid():
                    _refuse_first(holder)
                    _inherit(name)
                    _end(holder)
                    continue
            if time.monotonic() > limit:
                raise
        time.sleep(_LOOK_AGAIN)


def _end(holder: Holder) -> None:
    log.info("taking over from pid %d", holder.pid)
    for signo, seconds in ((signal.SIGHUP, _HANGUP_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(holder.pidfd, signo)
        if holder.has_ended(seconds):
            return
    message = f"the server, pid {holder.pid}, does not end, though it was killed: see where it hangs"
    raise Conflict(message, pid=holder.pid)


def _refuse_first(holder: Holder) -> None:
    """Spare the first process of this PID namespace: its end would be that of all others in it, and ours."""
    if holder.pid == 1:
        message = (
            "the server is the first process here (pid 1), and nothing outlives it: restart its container"
        )
        raise Conflict(message, pid=1)


def _inherit(name: str) -> None:
    """Put our pid into the connection files: the end of a server takes away only those that name itself.

    So the name can be found all the time; who comes meanwhile waits at the same addresses.
    """
    for path in (connection.state_folder(name) / "connection.json", connection.runtime_file(name)):
        with contextlib.suppress(ConnectionFailed, OSError):
            info = connection.load(path)
            connection.write_connection_file(path, replace(info, pid=os.getpid(), epoch=""))


def _check_keeper(folder: Path) -> None:
    """Find out before anyone is ended whether the keeper would refuse us, or not answer."""
    try:
        with listener.connect(os.fsencode(folder)) as sock:
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    except OSError:
        return
    keeper, _, _ = struct.unpack("iII", credentials)
    if is_descendant(os.getpid(), keeper):
        raise ConnectionFailed("a command of a server cannot replace it: start the new one from outside")
    if _is_stopped(keeper):
        raise ConnectionFailed(f"the keeper is stopped: let it go on by `kill -CONT {keeper}` and try again")


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return procfs.stat_of(pid)[procfs.STATE] == b"T"
    return False
