"""Own what can be told of a running command when the journal has lost its start: the keeper and /proc know.

Knows nothing of tables and logs, and changes nothing.
"""

from __future__ import annotations

import contextlib
import os

from execzmq.keeper.handover import SpawnedProcess
from execzmq.process.spec import ProcessSpec, key_of, spec_of
from execzmq.types.params import ExecParams, StdinKind

_NO_ARGV: tuple[bytes, ...] = (b"?",)
_STARTER = "unknown"


def spec_from_keeper(spawned: SpawnedProcess, cwd: bytes, budget: int) -> ProcessSpec | None:
    """Return a spec with which the command can be listed, read, signalled and ended.

    Its name, limits and lifetime are lost: it has the defaults. No request is a repeat of it.

    Args:
        cwd: where nobody can tell the command's.
        budget: of its log.

    Returns:
        `None` where its key was not made by a server.
    """
    process_id, _, word = spawned.process_id.rpartition(".")
    try:
        instance = int(word, 16)
    except ValueError:
        return None
    if not process_id or key_of(process_id, instance) != spawned.process_id:
        return None
    argv, found_cwd = _NO_ARGV, cwd
    if spawned.exit is None:  # the keeper has not reaped it: the number is its own
        argv, found_cwd = _argv_of(spawned.pid), _cwd_of(spawned.pid) or cwd
    stdin: StdinKind = "pipe" if "stdin" in spawned.fds else "null"
    params = ExecParams(argv=argv, process_id=process_id, tty="pty" in spawned.fds, stdin=stdin)
    return spec_of(params, process_id, instance, found_cwd, budget, _STARTER, "", spawned.started_at)


def _argv_of(pid: int) -> tuple[bytes, ...]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
        return tuple(words[:-1]) or _NO_ARGV
    return _NO_ARGV


def _cwd_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    return b""
