"""Own the way from the parameters of a start to what the keeper takes, and from its refusals to errors."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]  # it ships no types

from execzmq.errors import (
    ArgumentTooLong,
    BadFormat,
    CommandNotFound,
    ExecZMQError,
    InvalidRequest,
    NotExecutable,
    ServerLost,
    SpawnFailed,
    WorkingDirectoryMissing,
)
from execzmq.keeper.client import KeeperLost
from execzmq.keeper.launch import Launch, Limit, SpawnError, Tty
from execzmq.process.environ import build_env
from execzmq.process.segments import segment_size
from execzmq.process.spec import ProcessSpec
from execzmq.types.params import EnvPolicy, ExecParams, Limits

_LIMIT_NAMES = {
    "memory": "as",
    "cpu": "cpu",
    "processes": "nproc",
    "file_size": "fsize",
    "descriptors": "nofile",
}

_ERRORS: dict[str, type[ExecZMQError]] = {
    "not_found": CommandNotFound,
    "interpreter_not_found": CommandNotFound,
    "not_executable": NotExecutable,
    "is_directory": NotExecutable,
    "bad_format": BadFormat,
    "cwd_missing": WorkingDirectoryMissing,
    "cwd_not_directory": WorkingDirectoryMissing,
    "argument_too_long": ArgumentTooLong,
    "empty_argv": InvalidRequest,
    "empty_program": InvalidRequest,
    "nul_in_name": InvalidRequest,
    "invalid_env_name": InvalidRequest,
    "invalid_limit": InvalidRequest,
    "invalid_terminal_size": InvalidRequest,
}


_REMEDIES = {
    "too_many_descriptors": "end some commands, or raise ulimit -n and start the server anew",
    "no_memory": "end some commands, or make memory free, and start it again",
    "try_again": "end some of this user's processes, or raise ulimit -u, and start it again",
    "no_terminal": "end some commands that have a terminal, and start it again",
}
"""What helps where the machine, and not the command, is the reason."""

_REASONS = {
    errno.EMFILE: "too_many_descriptors",
    errno.ENFILE: "too_many_descriptors",
    errno.ENOMEM: "no_memory",
    errno.EAGAIN: "try_again",
}


def check_params(params: ExecParams) -> None:
    """Check what can be refused before anything is begun.

    Raises:
        InvalidRequest: stdin is to be data, and also a terminal; a limit with which nothing can run.
    """
    if params.limits is not None:
        params.limits.check()
    if params.tty and params.stdin_data:
        message = "a command at a terminal reads the terminal; write the data to it once it runs"
        raise InvalidRequest(message, fields={"stdin_data": "not with a terminal"})


def explain_plain(params: ExecParams, base_env: Mapping[bytes, bytes], cwd: bytes) -> dict[str, Any]:
    """Return what a start that is not confined would become; of its variables the names alone.

    Raises:
        InvalidRequest: a variable cannot be one.
    """
    names = sorted(env_of(params, base_env, b""))
    return {
        "argv": list(params.argv),
        "arguments": None,
        "cwd": cwd,
        "env": names,
        "env_changes": None,
        "sandbox": None,
    }


def env_of(
    params: ExecParams,
    base_env: Mapping[bytes, bytes],
    mark: bytes | None,
    profile: EnvPolicy | None = None,
) -> dict[bytes, bytes]:
    """Return the variables of a command; for arguments and errors see `build_env`."""
    base = base_env if params.env is None else params.env
    return build_env(base, params.env_policy, mark, profile)


_values_of = operator.attrgetter(*(field.name for field in dataclasses.fields(ExecParams)))
_pack: Callable[[object], bytes] = msgpack.Packer(default=repr, unicode_errors="surrogatepass").pack


def digest_of(params: ExecParams) -> str:
    """Return what is the same for the same request only."""
    return hashlib.sha256(_pack(_values_of(params))).hexdigest()


class Home(NamedTuple):
    """What names one life of a process, and where that runs and is kept; `folder` is that of its log."""

    key: str
    cwd: bytes
    folder: str
    log_budget: int


def launch_of(
    params: ExecParams, spec: ProcessSpec, base_env: Mapping[bytes, bytes], folder: str
) -> tuple[Launch, dict[str, int]]:
    """Return what the keeper is asked for, and descriptors to pass, which the caller must close.

    Raises:
        InvalidRequest: a variable cannot be one. SpawnFailed: there is no descriptor or memory for its stdin.
    """
    env = env_of(params, base_env, spec.mark)
    return launch_with(params, env, Home(spec.key, spec.cwd, folder, spec.log_budget))


def launch_with(params: ExecParams, env: Mapping[bytes, bytes], home: Home) -> tuple[Launch, dict[str, int]]:
    """Return the same with all of the variables given.

    Raises:
        SpawnFailed: there is no descriptor or memory for its stdin.
    """
    size = params.tty_size
    files: dict[str, int] = {}
    stdin = params.stdin
    if params.tty or (stdin == "data" and not params.stdin_data):
        stdin = "null"
    elif stdin == "data":
        try:
            files["stdin"] = memory_file("execzmq-stdin", params.stdin_data)
        except OSError as error:
            raise spawn_error(error) from None
    launch = Launch(
        process_id=home.key,
        argv=params.argv,
        cwd=home.cwd,
        env=env,
        umask=params.umask,
        arg0=params.arg0,
        limits=_limits(params.limits),
        tty=Tty(size.rows, size.cols, params.tty_echo) if params.tty else None,
        stdin="fd" if stdin == "data" else stdin,
        merge_stderr=params.merge_stderr,
        folder=os.fsencode(home.folder),
        drain_limit_bytes=home.log_budget,
        segment_bytes=segment_size(home.log_budget),
    )
    return launch, files


def is_shortage(error: OSError) -> bool:
    """Tell whether descriptors, memory or processes have run out, whatever was to be done with them."""
    return error.errno in _REASONS


def spawn_error(error: BaseException) -> ExecZMQError:
    """Return the error that a client is told of a spawn that failed."""
    if isinstance(error, SpawnError):
        cls = _ERRORS.get(error.reason, SpawnFailed)
        details = {**error.details, "reason": error.reason, "errno": error.errno}
        return cls(_with_remedy(error.message, error.reason), **details)
    if isinstance(error, KeeperLost):
        known = "whether the command was started is not known"
        return ServerLost(f"{error}; {known if error.was_asked else 'nothing was started, try again'}")
    number = error.errno if isinstance(error, OSError) else None
    reason = _REASONS.get(number or 0, type(error).__name__)
    message = _with_remedy(f"the command could not be started: {error}", reason)
    return SpawnFailed(message, reason=reason, errno=number)


def _with_remedy(message: str, reason: str) -> str:
    return f"{message}; {_REMEDIES[reason]}" if reason in _REMEDIES else message


def _limits(limits: Limits | None) -> dict[str, Limit]:
    if limits is None:
        return {}
    chosen = {name: getattr(limits, field) for field, name in _LIMIT_NAMES.items()}
    return {name: (value, value) for name, value in chosen.items() if value is not None}


def memory_file(name: str, data: bytes) -> int:
    """Return a descriptor, open for reading alone, of a file in memory that holds `data`.

    Raises:
        OSError: there is no descriptor or no memory for it.
    """
    writer = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(writer, view) :]
        return os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writer)
