"""A listener inside of a sandbox's network, made from outside: nothing of ours runs, or is seen, in there.

Owns the way into the namespaces, which a forked child goes and ends: entering a user namespace cannot be
undone. It must not know what connects there, or the keeper's table.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from execzmq.keeper import signals
from execzmq.keeper.child import close_others
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.loop import Loop
from execzmq.keeper.pidfds import is_over, pid_of

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_NS_GET_USERNS = 0xB701
_BACKLOG = 128
_CHILD_SECONDS = 2
"""How long a child may take, which needs 3 ms."""
_PLACED = b"placed"

_libc = ctypes.CDLL(None, use_errno=True)


class Placements:
    """The children that are placing a listener, until each has answered.

    Args:
        loop: which tells that one has answered, or ended without an answer.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: set[socket.socket] = set()

    def start(self, network: int, port: int, done: Callable[[int | SpawnError], None]) -> None:
        """Place a listener on a port of a network's loopback.

        Args:
            network: descriptor of the network namespace; it stays the caller's.
            port: 1 to 65,535.
            done: called once, later, with the listener, then the callee's own, or what went wrong.

        Raises:
            OSError: no child can be made.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                _fork(network, port, theirs)
            self._loop.watch(ours.fileno(), lambda: self._on_answer(ours, done))
        except BaseException:
            ours.close()
            raise
        self._waiting.add(ours)

    def close(self) -> None:
        """Wait no more; a child that is still there ends by itself."""
        while self._waiting:
            self._waiting.pop().close()

    def _on_answer(self, ours: socket.socket, done: Callable[[int | SpawnError], None]) -> None:
        self._loop.unwatch(ours.fileno())
        self._waiting.discard(ours)
        with ours:
            words, fds, _, _ = socket.recv_fds(ours, 256, 1)
        if not fds:
            done(_failure(words))
            return
        os.set_inheritable(fds[0], False)
        done(fds[0])


def open_network(pidfd: int) -> int:
    """Open the network namespace of a process, the caller's then.

    Raises:
        SpawnError: `invalid_descriptor`, that is no pidfd; `ended`, there is no such process any more;
            `host_network`, it has no network of its own; `listen_failed`, the system refuses.
    """
    try:
        network = os.open(f"/proc/{pid_of(pidfd)}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except ValueError as exc:
        raise SpawnError("invalid_descriptor", None, f"listen came with one: {exc}") from exc
    except FileNotFoundError as exc:
        raise SpawnError("ended", exc.errno, "the process has ended: it has no network any more") from exc
    except OSError as exc:
        words = f"the network of the process cannot be opened: {exc.strerror}"
        raise SpawnError("listen_failed", exc.errno, words) from exc
    try:
        # The number may have been another's by then: only while the process lives is it surely its own.
        if is_over(pidfd):
            raise SpawnError("ended", errno.ESRCH, "the process has ended: it has no network any more")
        if _is_own("net", network):
            raise SpawnError("host_network", None, "the process has no network of its own")
    except BaseException:
        os.close(network)
        raise
    return network


def open_owner(network: int) -> int:
    """Open the user namespace that owns a network, which its processes need not be in; the caller's then.

    Raises:
        OSError: the system refuses.
    """
    return fcntl.ioctl(network, _NS_GET_USERNS)


def _is_own(kind: str, namespace: int) -> bool:
    """Tell whether a namespace is the one that this process is in."""
    own, other = os.stat(f"/proc/self/ns/{kind}"), os.fstat(namespace)
    return (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino)


def _failure(words: bytes) -> SpawnError:
    """Read a child's report; none at all is that of one that was too slow."""
    step, _, number = words.decode("ascii", "replace").partition(":")
    if not number:
        return SpawnError("listen_failed", None, "no listener could be placed: its maker was ended")
    text = f"no listener could be placed: {step}: {os.strerror(int(number))}"
    return SpawnError("listen_failed", int(number), text)


def _fork(network: int, port: int, answer: socket.socket) -> None:
    """Fork with all signals blocked, so that none meets the keeper's handlers in the child."""
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        if os.fork() == 0:
            _place(network, port, answer)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _place(network: int, port: int, answer: socket.socket) -> NoReturn:
    """Be the child: answer with the listener, or with the step that failed and its errno, and end."""
    step = "begin"
    try:
        # The kernel ends it if anything here hangs.
        signals.reset()
        signal.alarm(_CHILD_SECONDS)
        # A copy of the keeper's would hide the end of a stream.
        close_others({0, 1, 2, network, answer.fileno()})
        step = "enter the user namespace"
        _enter_owner(network)
        step = "enter the network"
        _set_namespace(network, _CLONE_NEWNET)
        step = f"listen on port {port}"
        with _listener(port) as listener:
            socket.send_fds(answer, [_PLACED], [listener.fileno()])
    except OSError as exc:
        answer.send(f"{step}:{exc.errno or errno.EIO}".encode())
    finally:
        os._exit(0)


def _enter_owner(network: int) -> None:
    """Enter the user namespace that owns a network: its process may be in one further inside."""
    owner = open_owner(network)
    if not _is_own("user", owner):
        _set_namespace(owner, _CLONE_NEWUSER)


def _set_namespace(namespace: int, kind: int) -> None:
    if _libc.setns(namespace, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _listener(port: int) -> socket.socket:
    """Listen on both loopback addresses by one socket, on 127.0.0.1 alone where there is no IPv6.

    It is bound to no single address: a network of its own has no other, and its loopback may not be up yet.
    """
    try:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return _bound(socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0", port)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return _bound(listener, "::", port)


def _bound(listener: socket.socket, address: str, port: int) -> socket.socket:
    listener.bind((address, port))
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener
