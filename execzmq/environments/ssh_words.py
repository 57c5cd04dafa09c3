"""Own what is said to ssh and what its answers mean: command lines, the line run at the far end, errors.

Pure: starts nothing. Of a server's connection file only the paths of its sockets get into a command line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from execzmq.connection import Channel, ConnectionInfo
from execzmq.environments.model import Ssh
from execzmq.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ExecZMQError,
    RequestTimeout,
    VersionMismatch,
)

MARKER = b"execzmq-lends "
"""What the one line begins with that the far end has to say; what its shell's files print comes before."""

_OPTIONS = {
    # Nobody is there to be asked, for a password or whether a host is the right one.
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    # The connection is our own, to be asked for forwards, and ends with us.
    "ControlMaster": "yes",
    "ControlPersist": "no",
    "StreamLocalBindMask": "0177",
    "StreamLocalBindUnlink": "yes",
    # Whatever the user's own configuration forwards or runs is for the user's own sessions.
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
}
_HOLD = "exec cat >/dev/null"
"""Lasts until this side has gone; then all that the connection carries ends."""
_UNFIT = re.compile(r"[^ -~\x80-\U0010ffff]|[\\:$%\[\]]")
"""Characters that mean something to ssh in the path of a forward."""


def connect_argv(ssh: Ssh, control: str, script: str) -> list[str]:
    """Return the command line of the one ssh that carries everything.

    Args:
        control: path of the socket by which it takes orders.
        script: for the far end's `sh`.
    """
    words = ["ssh", "-S", control]
    for name, value in _OPTIONS.items():
        words += ["-o", f"{name}={value}"]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    # The far end's login shell may be of any kind; all of them start a program and know single quotes.
    return [*words, "--", ssh.destination, f"exec sh -c {shlex.quote(script)}"]


def forward_argv(control: str, info: ConnectionInfo, folder: str) -> list[str]:
    """Return the command line that makes that ssh forward a server's sockets into a folder here.

    Raises:
        ConnectionFailed: a path has characters that ssh cannot take.
    """
    words = ["ssh", "-F", "none", "-S", control, "-O", "forward"]
    near = forwarded(info, folder)
    for channel in get_args(Channel):
        path, there = near.socket_path(channel), info.socket_path(channel)
        if there is None or not there.startswith("/") or _UNFIT.search(there):
            raise ConnectionFailed(f"the server's socket {there!r} has a path that ssh cannot forward")
        words += ["-L", f"{path}:{there}"]
    return [*words, "--", "it"]


def forwarded(info: ConnectionInfo, folder: str) -> ConnectionInfo:
    """Return how a server is reached whose sockets are forwarded into a folder here.

    Nothing in it says any more that the server might be on this machine.
    """
    return replace(info, ip=f"{folder}/s", host="", epoch="", pid=0)


def lend_script(ssh: Ssh, *, start: bool) -> str:
    """Return what the far end runs first: it prints the server's connection file, then lasts.

    Args:
        start: a server is started where none runs.
    """
    # Programs that a user has installed are seldom on the PATH that ssh gives.
    path = 'PATH="$PATH:$HOME/.local/bin"; export PATH'
    lend = f"{ssh.command} serve --lend {'start' if start else 'running'} --name {ssh.name}"
    return f"{path}; {lend} && {_HOLD}"


def hold_script() -> str:
    """Return what the far end runs when the connection is made anew."""
    return f'echo "{MARKER.decode()}"; {_HOLD}'


def marked(output: bytes) -> bytes | None:
    """Return what stands on the marked line of an output, `None` while there is none that is whole."""
    for line in output.split(b"\n")[:-1]:
        if line.startswith(MARKER):
            return line[len(MARKER) :]
    return None


def why_ended(name: str, ssh: Ssh, status: int, said: Sequence[str]) -> ExecZMQError:
    """Return the error of an ssh that has ended.

    Args:
        name: of the environment.
        status: of ssh: 255 is its own, others are the far end's.
        said: lines that it, or the far end, wrote to stderr.
    """
    text, host, last = "\n".join(said), ssh.destination, _last(said)
    for of_ssh, pattern, error, words in _KNOWN:
        if of_ssh is (status == 255) and re.search(pattern, text):
            return error(f"environment {name}: {words.format(host=host, by_hand=_by_hand(ssh))} ({last})")
    if status == 255:
        return ConnectionFailed(f"environment {name}: ssh to {host}: {last}")
    if status == 127:
        step = "install it there, or name it by `command` in the environment"
        return ConnectionFailed(f"environment {name}: {host} has no execzmq on its PATH: {step} ({last})")
    return ConnectionFailed(f"environment {name}: {host}: {last} (status {status})")


_KNOWN: tuple[tuple[bool, str, type[ExecZMQError], str], ...] = (
    (
        True,
        "IDENTIFICATION HAS CHANGED",
        AuthenticationFailed,
        "the host key of {host} is another one than before: if that is right, remove the old one by"
        " `ssh-keygen -R`",
    ),
    (
        True,
        "Host key verification failed",
        AuthenticationFailed,
        "the host key of {host} is not known yet: {by_hand} shows it, and asks",
    ),
    (
        True,
        "Permission denied",
        AuthenticationFailed,
        "{host} does not let this user in: {by_hand} must work without a password (`ssh-copy-id`, `ssh-add`)",
    ),
    (
        False,
        "[Nn]o such option",
        VersionMismatch,
        "the execzmq of {host} is too old to lend a server: upgrade it",
    ),
)
"""Whether ssh says it or the far end, a pattern of what is said → what that is and what helps."""


def not_met(name: str, ssh: Ssh, said: Iterable[str], error: ExecZMQError) -> ExecZMQError:
    """Return the error of who has not met the server that listens there.

    Args:
        said: what ssh has said meanwhile; it may have been told to forward nothing.
        error: what the client says.
    """
    if not any("open failed" in line for line in said):
        return type(error)(f"environment {name}: {error.message}", **error.details)
    return ConnectionFailed(
        f"environment {name}: the ssh server of {ssh.destination} does not forward Unix sockets:"
        " `AllowStreamLocalForwarding yes` in its configuration lets it"
    )


def late(name: str, ssh: Ssh, seconds: float) -> RequestTimeout:
    """Return the error of a machine that has not let us in, or lent nothing, in time."""
    told = f"{ssh.destination} has not answered for {seconds:g} s"
    return RequestTimeout(f"environment {name}: {told}: see what {_by_hand(ssh)} does")


def _by_hand(ssh: Ssh) -> str:
    return f"`ssh {f'-p {ssh.port} ' if ssh.port else ''}{ssh.destination} true`"


def _last(said: Sequence[str]) -> str:
    """Return the line that says most: the last one that is no decoration."""
    lines = [line.strip().removeprefix("execzmq: ") for line in said if re.search(r"\w", line)]
    return lines[-1] if lines else "it said nothing"
