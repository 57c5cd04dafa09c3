"""A sandbox in the host's own network, made under Landlock's scopes."""

import errno
import os
import socket
import subprocess
from collections.abc import Callable

import pytest

from execzmq.keeper import landlock

CONNECT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    print(client.connect_ex(b"\\0" + sys.argv[1].encode()))
with socket.socket(socket.AF_UNIX) as server:
    server.bind(b"\\0own")
    server.listen()
    with socket.socket(socket.AF_UNIX) as client:
        print(client.connect_ex(b"\\0own"))
"""


@pytest.mark.skipif(not landlock.can_scope(), reason="no scopes in Landlock before Linux 6.12")
def test_bubblewrap_still_mounts(bwrap: str, uid: int, python: str) -> None:
    """A sandbox in the host's network can be made under it, and holds the host's abstract sockets back."""
    words = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--cap-drop", "ALL", "--tmpfs", "/tmp", "--die-with-parent"]
    name = f"execzmq-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        command = [bwrap, *words, "--", python, "-I", "-S", "-c", CONNECT, name]
        found = [
            subprocess.run(command, capture_output=True, text=True, preexec_fn=step, timeout=30)
            for step in (_as(uid), _as(uid, landlock.scope))
        ]
    assert [one.stdout.split() for one in found] == [["0", "0"], [str(errno.EPERM), "0"]], found


def _as(uid: int, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
    def step() -> None:
        if os.geteuid() != uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        then()

    return step
