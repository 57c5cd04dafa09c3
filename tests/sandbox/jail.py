"""Run a command in a sandbox whose limits are set while it waits at the gate, as this user or as another one.

Owns nothing that outlives a call. Only the limits are those of the product: the rest of the sandbox is the
least that they need.
"""

import asyncio
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from execzmq.sandbox.cgroups import Cgroup, Cgroups
from execzmq.sandbox.limits import Enforced, LimitFacts, LimitName, Scope, enforce, group_for
from execzmq.types.params import Limits

NOBODY = 65534
MIB = 1 << 20
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or os.path.realpath(sys.executable)
"""The system's, since another user may not be able to read that of the tests."""

Result = TypeVar("Result")


class Ended(NamedTuple):
    """How a command of a sandbox ended: its code (128 + n for a signal n), and what its limits tell."""

    code: int
    output: str
    facts: LimitFacts
    enforced: dict[LimitName, Scope]
    is_removed: bool


@contextmanager
def held(
    command: list[str], workspace: str, tmp_bytes: int = 64 * MIB, before: Sequence[bytes] = ()
) -> Iterator["Held"]:
    """A sandbox whose first process waits at its gate; what is left of it at the end is killed.

    `before` are words before the wrapper's.
    """
    reader, status = os.pipe()
    gate, release = os.pipe()
    argv = [
        *map(os.fsdecode, before),
        shutil.which("bwrap") or "bwrap",
        *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
        *("--new-session", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--size", str(tmp_bytes), "--tmpfs", "/tmp"),
        *("--bind", workspace, workspace, "--chdir", workspace),
        *("--json-status-fd", str(status), "--block-fd", str(gate), "--", *command),
    ]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
    bwrap = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(status, gate), env=env, text=True
    )
    os.close(status)
    os.close(gate)
    try:
        with bwrap, os.fdopen(reader) as documents, os.fdopen(release, "wb", 0) as opener:
            pid = int(json.loads(documents.readline())["child-pid"])
            sandbox = Held(bwrap, pid, os.pidfd_open(pid), opener)
            try:
                yield sandbox
            finally:
                sandbox.close()
    finally:
        bwrap.kill()


class Held:
    """A sandbox at its gate; `pid` is its first process, with which all of it ends."""

    def __init__(self, bwrap: "subprocess.Popen[str]", pid: int, pidfd: int, opener: IO[bytes]) -> None:
        self.pid = pid
        self._bwrap = bwrap
        self._pidfd = pidfd
        self._opener = opener

    def release(self) -> tuple[int, str]:
        """Let the command run, end what it has left at its end, and return its code and (short) output."""
        self._opener.write(b"x")
        code = self._bwrap.wait(timeout=30)
        self._kill()
        assert self._bwrap.stdout is not None
        return code, self._bwrap.stdout.read()

    def close(self) -> None:
        """End the sandbox; idempotent."""
        if self._pidfd != -1:
            self._kill()
            self._bwrap.wait(timeout=30)
            os.close(self._pidfd)
            self._pidfd = -1

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def joining(group: Cgroup) -> list[bytes]:
    """Return words before a command with which it joins a group by itself."""
    join = '{ while [ "$1" != -- ]; do echo 0 >"$1"; shift; done; } 2>/dev/null; shift; exec "$@"'
    return [b"/bin/sh", b"-c", join.encode(), b"sh", *group.joins, b"--"]


def confine(
    command: list[str], limits: Limits, cgroups: Cgroups, workspace: str, tmp_bytes: int = 64 * MIB
) -> Ended:
    """Run a command with `limits`, and remove its control group at its end."""
    group = group_for("life", limits, cgroups)
    with held(command, workspace, tmp_bytes, () if group is None else joining(group)) as sandbox:
        found: Enforced = asyncio.run(
            enforce(sandbox.pid, "life", limits, cgroups, os.geteuid(), cgroup=group)
        )
        code, output = sandbox.release()
        facts = found.facts()
        is_removed = found.cgroup is None or asyncio.run(found.cgroup.remove())
    return Ended(code, output, facts, dict(found.plan.enforced), is_removed)


def python(code: str) -> list[str]:
    """Return the command that runs `code`."""
    return [PYTHON, "-I", "-S", "-c", code]


def as_user(uid: int, call: Callable[[], Result]) -> Result:
    """Do something as another user, in a child of this process, and return what it returns.

    Raises:
        AssertionError: it failed there.
    """
    if uid == os.geteuid():
        return call()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(_answer(uid, call, writer))
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    succeeded, result = pickle.loads(answer)
    assert succeeded, result
    return result  # type: ignore[no-any-return]  # what `call` returned


def _answer(uid: int, call: Callable[[], object], writer: int) -> int:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        answer = (True, call())
    except BaseException as error:
        answer = (False, repr(error))
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
    return 0


def names_in(folder: Path) -> list[str]:
    """Return what is in a folder, in order."""
    return sorted(os.listdir(folder))
