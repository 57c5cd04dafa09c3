"""Own how a server is found and started in the background: once, whoever asks at a time.

Knows the server only as a command line; never loads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from execzmq import connection
from execzmq.client.worker import Worker
from execzmq.connection import ConnectionInfo
from execzmq.errors import ConnectionFailed, RequestTimeout
from execzmq.settings import DEFAULT_NAME

START_SECONDS = 30.0
"""Seconds within which a server that is being started must be ready."""
IDLE_SECONDS = 600
"""Seconds without work after which a default server ends."""
LOG_NAME = "server.log"
_LOCK_AGAIN = 0.01

_PASSED_ON = (
    # what a program and its interpreter need to start at all
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"),
    # where a service manager wants to be told; the server passes it to nobody
    "NOTIFY_SOCKET",
    # where folders and connection files are
    *("XDG_RUNTIME_DIR", "XDG_*_HOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"),
)
"""Patterns of the variables that the server gets from whoever is first; no secret of that one's."""

_BOOTSTRAP = """\
import os, sys
os.fork() and os._exit(0)
sys.path.insert(0, {root!r})
import execzmq
sys.path.append(sys.path.pop(0))
from execzmq.cli.main import main
main()
"""


DEFAULT_OPTIONS = ("--idle-timeout", str(IDLE_SECONDS))
"""Options of `serve` for a server that starts on first use."""


async def ensure_server(
    name: str = DEFAULT_NAME,
    options: Sequence[str] = DEFAULT_OPTIONS,
    variables: Mapping[bytes, bytes] | None = None,
) -> ConnectionInfo:
    """Return how to reach the server `name` of this host; start it where none runs.

    Cancelling leaves a server that is being started to become ready.

    Args:
        options: of `serve`, where it is started.
        variables: that it gets then; `None` = those of this process that hold no secret.

    Raises:
        ConnectionFailed: it could not be started; quotes what it said last.
        RequestTimeout: it, or somebody else who is starting it, is not ready in time.
    """
    info = running(name)
    if info is not None:
        return info
    worker = Worker("execzmq-start")
    try:
        return await worker.run(lambda: ensure_default(name, options, variables))
    finally:
        worker.close(lambda: None)


def ensure_default(
    name: str = DEFAULT_NAME,
    options: Sequence[str] = DEFAULT_OPTIONS,
    variables: Mapping[bytes, bytes] | None = None,
) -> ConnectionInfo:
    """Do the same as `ensure_server`, blocking."""
    info = running(name)
    if info is not None:
        return info
    state = connection.private_folder(connection.state_folder(name))
    deadline = time.monotonic() + START_SECONDS
    with start_lock(name, deadline) as lock:
        info = running(name)  # another one who wanted it was quicker
        if info is None:
            _start(name, state, lock, deadline, options, variables)
            info = connection.load(state / "connection.json")
    return info


def start_in_background(name: str, options: Sequence[str]) -> None:
    """Start a server with options of `serve` and wait until it is ready; its log is where a default one's is.

    Raises:
        ConnectionFailed: it could not be started; quotes what it said last.
        RequestTimeout: it, or somebody else who is starting it, is not ready in time.
    """
    state = connection.private_folder(connection.state_folder(name))
    deadline = time.monotonic() + START_SECONDS
    with start_lock(name, deadline) as lock:
        _start(name, state, lock, deadline, options)


def running(name: str = DEFAULT_NAME) -> ConnectionInfo | None:
    """Return how to reach the server `name` of this host, or `None` where none listens."""
    path = connection.state_folder(name) / "connection.json"
    try:
        info = connection.load(path)
    except ConnectionFailed:
        return None
    return info if listens(info) else None


def listens(info: ConnectionInfo) -> bool:
    """Tell whether somebody listens at the socket of a local server; a busy or stopped one does.

    So does one that is taking over from another, as far as clients are concerned: it is worth to wait for it.
    """
    path = info.socket_path("shell")
    return path is None or _accepts(path) or _takes_over(info)


def is_back(info: ConnectionInfo) -> bool:
    """Tell whether a server that was lost is worth to be waited for: over a network that does not show."""
    return info.transport == "ipc" and listens(info)


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def _takes_over(info: ConnectionInfo) -> bool:
    """Tell whether a living server has put its pid into the file of the one before, and has no epoch yet."""
    if info.epoch or info.pid < 1 or info.host != connection.host_id():
        return False
    try:
        os.kill(info.pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def core_variables(variables: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return those of the caller's variables that a server gets."""
    return {
        name: value
        for name, value in variables.items()
        if any(fnmatchcase(os.fsdecode(name), pattern) for pattern in _PASSED_ON)
    }


@contextlib.contextmanager
def start_lock(name: str, deadline: float | None = None) -> Iterator[int]:
    """Hold the lock under which a server is started, as a descriptor; a holder that dies gives it up.

    Raises:
        RequestTimeout: somebody else has it up to the deadline, in monotonic seconds.
    """
    connection.private_folder(connection.state_folder(name))
    fd = _locked(lock_path(name), time.monotonic() + START_SECONDS if deadline is None else deadline)
    try:
        yield fd
    finally:
        os.close(fd)


def lock_path(name: str) -> Path:
    """Return the file of the start lock; whoever holds the lock may remove it with the state folder."""
    state = connection.state_folder(name)
    return state.parent / f".{state.name}.start"


def _locked(path: Path, deadline: float) -> int:
    """Return the descriptor of a lock that is held, and whose file nobody has removed meanwhile."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _lock(fd, path, deadline)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.lstat(path)):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _lock(fd: int, path: Path, deadline: float) -> None:
    # A blocking `flock` has no limit, and its holder may have been stopped.
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            raise RequestTimeout(
                f"somebody else has been starting the server for long: see who has {path} open"
            )
        time.sleep(_LOCK_AGAIN)


def _start(
    name: str,
    state: Path,
    lock: int,
    deadline: float,
    options: Sequence[str],
    variables: Mapping[bytes, bytes] | None = None,
) -> None:
    """Start a server that is nobody's child and wait until it says that it is ready."""
    log = state / LOG_NAME
    ready, told = os.pipe()
    try:
        try:
            _spawn(name, log, told, lock, options, variables)
        finally:
            os.close(told)
        answer = _read_line(ready, deadline)
    finally:
        os.close(ready)
    if answer is None:
        raise RequestTimeout(f"the server {name!r} is not ready after {START_SECONDS:g} s: see {log}")
    if answer != b"ready\n":
        said = answer.decode(errors="replace").strip() or _last_line(log)
        raise ConnectionFailed(f"the server {name!r} did not start: {said} (more in {log})")


def _spawn(
    name: str,
    log: Path,
    told: int,
    lock: int,
    options: Sequence[str],
    variables: Mapping[bytes, bytes] | None,
) -> None:
    output = _fresh_log(log)
    root = str(Path(__file__).resolve().parents[2])
    serve = ["serve", "--name", name, *options]
    # The lock is the server's too until it is ready: whoever started it may go away meanwhile.
    serve += ["--ready-fd", str(told), "--lock-fd", str(lock)]
    try:
        # The child forks at once and ends, so that the server is nobody's to wait for.
        subprocess.run(
            [sys.executable, "-P", "-c", _BOOTSTRAP.format(root=root), *serve],
            cwd="/",
            env=core_variables(os.environb) if variables is None else variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(told, lock),
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(output)


def _fresh_log(log: Path) -> int:
    """Open an empty log for appending; keep that of the server before."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(log, log.with_suffix(".old.log"))
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _read_line(fd: int, deadline: float) -> bytes | None:
    """Return the first line from a pipe, less where it ends before, `None` at the deadline."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        if not poll.poll(max(deadline - time.monotonic(), 0.0) * 1000):
            return None
        piece = os.read(fd, 256)
        if not piece:
            break
        line += piece
    return line


def _last_line(log: Path) -> str:
    try:
        lines = log.read_bytes()[-4096:].decode(errors="replace").split("\n")
    except OSError as error:
        return f"and its log cannot be read: {error.strerror}"
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return said.removeprefix("execzmq: ")
