"""The keeper's socket in the state folder: who may connect, and paths longer than a socket's address.

Owns the listening socket and its name in the file system. It must not know what is said on a connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from execzmq.keeper.tree import is_descendant

SOCKET_NAME = b"keeper.sock"
MAX_ADDRESS_BYTES = 100


@contextlib.contextmanager
def socket_address(state_dir: bytes) -> Iterator[bytes]:
    """Yield a path of the socket that fits into an address, valid inside the context only."""
    path = os.path.join(state_dir, SOCKET_NAME)
    if len(path) <= MAX_ADDRESS_BYTES:
        yield path
        return
    folder = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield b"/proc/self/fd/%d/%s" % (folder, SOCKET_NAME)
    finally:
        os.close(folder)


def connect(state_dir: bytes) -> socket.socket:
    """Connect to the keeper of a state folder.

    Raises:
        FileNotFoundError: there is no socket.
        ConnectionRefusedError: nobody listens on it.
        BlockingIOError: as many as may wait for it do so already; a blocking call would wait without a limit.
        OSError: it cannot be reached for another reason.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.setblocking(False)
        with socket_address(state_dir) as address:
            sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


class Listener:
    """Listen in a state folder until closed.

    Attributes:
        follows_dead: a keeper that did not end in order has left its name there.

    Raises:
        OSError: EADDRINUSE if another keeper listens there.
    """

    def __init__(self, state_dir: bytes) -> None:
        self._state_dir = state_dir
        self.follows_dead = False
        self._leaves_name = False
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._bind(self._sock)
        except BaseException:
            self._sock.close()
            raise

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 once closed."""
        return self._sock.fileno()

    def accept(self) -> socket.socket | None:
        """Take the next connection; None if there is none (any more)."""
        try:
            return self._sock.accept()[0]
        except OSError:
            return None

    def mend(self) -> None:
        """Listen anew, under the same descriptor, where the name was removed and its folder is there."""
        if os.path.lexists(os.path.join(self._state_dir, SOCKET_NAME)):
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            self._bind(sock)
            os.dup2(sock.fileno(), self._sock.fileno(), inheritable=False)

    def close(self) -> None:
        """Stop listening and remove the name, if it is still ours; idempotent."""
        if self._sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                if not self._leaves_name and self._file == _file(self._state_dir):
                    os.unlink(os.path.join(self._state_dir, SOCKET_NAME))
            self._sock.close()

    def leave_name(self) -> None:
        """Let the name of a keeper that follows a killed one stand, as that one has left it.

        Whether the server came to write down what it knew of lost commands is not known: the next one must
        see again that there were some.
        """
        self._leaves_name = self.follows_dead

    def _bind(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        old_mask = os.umask(0o177)
        try:
            with socket_address(self._state_dir) as address:
                self._remove_stale(address)
                sock.bind(address)
                self._file = _file(self._state_dir)
        finally:
            os.umask(old_mask)
        sock.listen(8)

    def _remove_stale(self, address: bytes) -> None:
        """Remove the name that a dead keeper left; bind says so if a living one has it."""
        try:
            connect(self._state_dir).close()
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            self.follows_dead = True
            with contextlib.suppress(FileNotFoundError):
                os.unlink(address)


def _file(state_dir: bytes) -> tuple[int, int]:
    status = os.lstat(os.path.join(state_dir, SOCKET_NAME))
    return status.st_dev, status.st_ino


def refusal(sock: socket.socket) -> tuple[str, str] | None:
    """Say why this peer may not speak to the keeper: a reason and its words, None if it may."""
    pid, uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.getuid():
        return "wrong_user", "the keeper serves its own user only"
    if is_descendant(pid, os.getpid()):
        return "descendant", "a command of this keeper cannot be its server: start the server from outside"
    return None
