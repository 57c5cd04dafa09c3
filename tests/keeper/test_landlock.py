"""What a command in the host's network cannot reach all the same: abstract sockets and processes outside."""

import contextlib
import ctypes
import errno
import os
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from execzmq.keeper import landlock

T = TypeVar("T")

needs_scopes = pytest.mark.skipif(
    not landlock.can_scope(), reason="this kernel's Landlock has no scopes (6.12)"
)


def in_child(work: Callable[[], int]) -> int:
    """Return what some work returns, at most 255, in a forked child of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def listening() -> Iterator[bytes]:
    """An abstract socket that this process listens on; its name."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(b"\0execzmq-%d" % os.getpid())
        server.listen()
        yield server.getsockname()


def connected(name: bytes) -> int:
    """Return the errno of connecting to a socket, 0 if it worked."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(name)


def errno_of_kill(pid: int) -> int:
    """Return the errno of asking for a process."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno or 0
    return 0


def errno_of_open(path: str) -> int:
    """Return the errno of opening a file for reading and writing."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno or 0
    return 0


def scoped(work: Callable[[T], int], argument: T) -> int:
    """Return what some work returns after the step."""
    landlock.scope()
    return work(argument)


@needs_scopes
def test_abstract_sockets_of_the_host() -> None:
    """One that listens outside cannot be reached (escape 48); without the step it can."""
    with listening() as name:
        assert connected(name) == 0
        assert in_child(lambda: scoped(connected, name)) == errno.EPERM


@needs_scopes
def test_own_abstract_sockets() -> None:
    """One that was made within is reached, also by a child."""

    def work() -> int:
        landlock.scope()
        with listening() as name:
            return connected(name) or in_child(lambda: connected(name))

    assert in_child(work) == 0


@needs_scopes
def test_processes_of_the_host() -> None:
    """No process outside gets a signal, those within do."""
    outside = os.getpid()
    assert in_child(lambda: scoped(errno_of_kill, outside)) == errno.EPERM
    assert in_child(lambda: scoped(lambda _: errno_of_kill(os.getpid()), None)) == 0


@needs_scopes
def test_files_are_as_before() -> None:
    """Nothing but sockets and signals is restricted, and this process is not at all."""
    assert in_child(lambda: scoped(errno_of_open, "/dev/null")) == 0
    with listening() as name:
        assert connected(name) == 0


def test_a_kernel_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no Landlock, or an older one, the step fails: nothing goes on without it."""

    class Old:
        def prctl(self, *_: object) -> int:
            return 0

        def syscall(self, *_: object) -> int:
            ctypes.set_errno(errno.ENOSYS)
            return -1

    monkeypatch.setattr(landlock, "_libc", Old())
    assert landlock.abi() == 0
    assert not landlock.can_scope()
    with pytest.raises(OSError, match="not implemented") as caught:
        landlock.scope()
    assert caught.value.errno == errno.ENOSYS
