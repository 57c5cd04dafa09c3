"""Run a command in a sandbox that is made by hand, as one user or another."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

OPTIONS = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"),
    *("--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--tmpfs", "/tmp"),
)


def as_user(uid: int) -> dict[str, Any]:
    """Return the arguments of `subprocess` that make this process another user; none if it is that user."""
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": ()}


def run(
    bwrap: str, command: Sequence[str], uid: int, *, program: bytes = b"", options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end under a filter of system calls; its output is text."""
    with ExitStack() as stack:
        words = [bwrap, *OPTIONS, *options]
        fds = []
        if program:
            fds.append(stack.enter_context(os.fdopen(memfd(program), "rb")).fileno())
            words += ["--seccomp", str(fds[0])]
        return subprocess.run(
            [*words, "--", *command],
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            pass_fds=fds,
            **as_user(uid),
        )


def memfd(data: bytes) -> int:
    """Return a descriptor that data is read from."""
    fd = os.memfd_create("test")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
