"""Own the reasons why a command was not executed in its sandbox: the wrapper's words and the host tell them.

Knows nothing of how the command was to be started.
"""

from __future__ import annotations

import os
from functools import partial

from execzmq.aside import aside
from execzmq.backends.entering import SECONDS, NotExecuted, words_in
from execzmq.backends.prepared import Prepared
from execzmq.errors import ExecZMQError, InvalidRequest, SandboxUnavailable
from execzmq.keeper.client import SpawnedProcess
from execzmq.keeper.diagnose import explain
from execzmq.keeper.launch import Launch
from execzmq.sandbox.limits import facts
from execzmq.sandbox.setup_errors import Explained, start_error, terminal_error

_LOOK_SECONDS = 5.0
_SETSID_FAILED = (126, 127)


async def error_of(prepared: Prepared, spawned: SpawnedProcess, failure: NotExecuted) -> ExecZMQError:
    """Return the error of a start in which the wrapper has not executed the command."""
    if failure.is_late:
        late = f"the sandbox was not ready within {SECONDS:.0f} s: does a file system not answer?"
        return SandboxUnavailable(late, reason="timeout")
    memory = prepared.permissions.limits.memory
    if prepared.cgroup is not None and facts(prepared.cgroup, ()).oom_kills:
        message = f"the limit memory={memory} is too little for the sandbox itself: ask for more"
        return InvalidRequest(message, reason="too_little_memory", field="limits.memory")
    fd = next(spawned.fds[name] for name in ("stderr", "stdout", "pty") if name in spawned.fds)
    launch = prepared.launched
    words = words_in(fd)
    look = partial(start_error, words, launch.argv, prepared.sight, partial(_explained, launch))
    try:
        return await aside(look, _LOOK_SECONDS)
    except TimeoutError:
        said = words.decode(errors="backslashreplace").strip()
        return SandboxUnavailable(f"the command was not executed: {said}", reason="timeout", words=said)


async def terminal_error_of(
    prepared: Prepared, spawned: SpawnedProcess, exit_code: int | None
) -> ExecZMQError | None:
    """Return the error of a start at a terminal; `None` where the command was executed and has ended."""
    if exit_code not in _SETSID_FAILED or "pty" not in spawned.fds:
        return None
    launch = prepared.launched
    words = words_in(spawned.fds["pty"])
    look = partial(terminal_error, words, exit_code, launch.argv, prepared.sight, partial(_explained, launch))
    try:
        error = await aside(look, _LOOK_SECONDS)
    except OSError:  # of time too, or there is no thread: the words alone tell it
        error = None
    if error is None and words:
        os.write(spawned.fds["mid_w"], words)  # the way of all that a terminal says
    return error


def _explained(launch: Launch, step: str, number: int) -> Explained:
    told = explain(launch, step, number)
    return Explained(told.reason, told.message, told.details)
