"""Own the keywords that `run` and `Popen` take from `subprocess` and what they come to: a `Plan`; pure.

Knows nothing of how a plan is carried out.
"""

from __future__ import annotations

import codecs
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from execzmq import settings
from execzmq.client.arguments import (
    COMMON_DEFAULTS,
    DEVNULL,
    INHERIT,
    LEAST_TIMEOUT,
    PIPE,
    SHELL,
    STDOUT,
    Caller,
    Command,
    CommonOptions,
    File,
    Word,
    argv_of,
    common_fields,
    refuse_unknown,
    seconds,
)
from execzmq.errors import InvalidRequest
from execzmq.types.params import ExecParams


class SubprocessOptions(CommonOptions, total=False):
    """Keywords of `subprocess` that `run` and `Popen` share; those that cannot cross raise ValueError.

    `close_fds`, `restore_signals`, `start_new_session` and `process_group=0` ask for what always holds.
    """

    bufsize: int | None
    executable: Word | None
    stdin: File
    stdout: File
    stderr: File
    shell: bool | str | None
    text: bool | None
    universal_newlines: bool | None
    encoding: str | None
    errors: str | None
    pipesize: int
    close_fds: bool
    restore_signals: bool
    start_new_session: bool
    process_group: int | None
    preexec_fn: Any
    pass_fds: Any
    startupinfo: Any
    creationflags: int
    user: Any
    group: Any
    extra_groups: Any


SUBPROCESS_DEFAULTS: SubprocessOptions = {
    **COMMON_DEFAULTS,
    "bufsize": None,
    "executable": None,
    "stdin": None,
    "stdout": None,
    "stderr": None,
    "shell": None,
    "text": None,
    "universal_newlines": None,
    "encoding": None,
    "errors": None,
    "pipesize": -1,
    "close_fds": True,
    "restore_signals": True,
    "start_new_session": True,
    "process_group": None,
    "preexec_fn": None,
    "pass_fds": (),
    "startupinfo": None,
    "creationflags": 0,
    "user": None,
    "group": None,
    "extra_groups": None,
}


class RunOptions(SubprocessOptions, total=False):
    """Keywords of `run`: those of `subprocess.run` and of `start`, and two of its own.

    Args:
        input: what the command reads from stdin; bytes, or str in text mode.
        capture_output: `True` as in `subprocess`; `False` = what is not redirected is inherited.
        timeout: seconds after which the tree is killed and `TimeoutExpired` raised; `None` = no limit.
        check: raise `CalledProcessError` where the command fails.
        drain: seconds after the exit for which the streams' end is awaited; `None` = no limit.
        max_output: bytes of each captured stream; beyond it the first and the newest half are kept, with a
            mark between them that says how much is missing. `None` = no limit.
    """

    input: bytes | bytearray | memoryview | str | None
    capture_output: bool | None
    timeout: float | None
    check: bool
    drain: float | None
    max_output: int | None


RUN_DEFAULTS: RunOptions = {
    **SUBPROCESS_DEFAULTS,
    "input": None,
    "capture_output": None,
    "timeout": None,
    "check": False,
    "drain": 1.0,
    "max_output": None,
}


@dataclass(slots=True, frozen=True)
class TextMode:
    """How bytes become text; `errors` is `None` where the caller has not said it."""

    encoding: str
    errors: str | None

    def decode(self, data: bytes) -> str:
        """Decode with universal newlines, as `subprocess` does."""
        text = data.decode(self.encoding, self.errors or "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def encode(self, text: str) -> bytes:
        """Encode what goes to stdin; what cannot be encoded is an error unless the caller said otherwise."""
        return text.encode(self.encoding, self.errors or "strict")


@dataclass(slots=True, frozen=True)
class Plan:
    """What one `run` or `Popen` does.

    Args:
        args: the command as the caller wrote it, for exceptions and results.
        stdin: `None` = what `params` says, else where it is read from.
        stdout: `PIPE`, `DEVNULL`, `INHERIT`, a descriptor or an object to write to.
        stderr: the same, or `STDOUT`.
        stdin_data: what is written to a piped stdin first, `None` = nothing.
    """

    args: Command
    params: ExecParams
    stdin: File
    stdout: File
    stderr: File
    text: TextMode | None
    stdin_data: memoryview | None = None
    timeout: float | None = None
    check: bool = False
    max_output: int | None = None


def run_plan(args: Command, options: RunOptions, caller: Caller | None) -> Plan:
    """Return the plan of `run(args, **options)`.

    Raises:
        TypeError: an unknown keyword or a value of a wrong type.
        ValueError: a keyword that cannot cross, or ones that exclude each other.
    """
    refuse_unknown("run", options, RUN_DEFAULTS)
    _refuse_local_only(options)
    options = {**RUN_DEFAULTS, **options}
    stdout, stderr = _captured(options)
    text = text_mode(options)
    data = _input(options, text)
    stdin = options["stdin"]
    if stdin in (PIPE, DEVNULL):
        stdin = None
    large = data is not None and len(data) > settings.WRITE_PIECE
    timeout = seconds(options["timeout"], "timeout", LEAST_TIMEOUT)
    params = _params(
        args,
        options,
        caller,
        stdin="pipe" if large or stdin is not None else "data" if data else "null",
        stdin_data=b"" if large or data is None else bytes(data),
        timeout=timeout,
        timeout_grace=0.0,
        drain_limit=seconds(options["drain"], "drain"),
    )
    return Plan(
        args=args,
        params=params,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=text,
        stdin_data=data if large else None,
        timeout=options["timeout"],
        check=bool(options["check"]),
        max_output=_max_output(options["max_output"]),
    )


def popen_plan(args: Command, options: SubprocessOptions, caller: Caller | None) -> Plan:
    """Return the plan of `Popen(args, **options)`; errors as for `run_plan`.

    Other than for `run`, a str is a program's name unless `shell` is given: moved code counts on it.
    """
    refuse_unknown("Popen", options, SUBPROCESS_DEFAULTS)
    _refuse_local_only(options)
    options = {**SUBPROCESS_DEFAULTS, **options}
    stdin = options["stdin"]
    stdin = None if stdin == DEVNULL else stdin
    if stdin == STDOUT:
        raise ValueError("STDOUT can only be used for stderr")
    options["shell"] = options["shell"] or False
    params = _params(args, options, caller, stdin="null" if stdin is None else "pipe")
    stdout = _or_inherit(options["stdout"])
    stderr = _or_inherit(options["stderr"])
    if stdout == STDOUT:
        raise ValueError("STDOUT can only be used for stderr")
    return Plan(args=args, params=params, stdin=stdin, stdout=stdout, stderr=stderr, text=text_mode(options))


def text_mode(options: Mapping[str, Any]) -> TextMode | None:
    """Return the text mode that the keywords ask for, `None` for bytes.

    Raises:
        subprocess.SubprocessError: `text` and `universal_newlines` contradict each other.
        LookupError: there is no such encoding or error handler.
    """
    text, newlines = options["text"], options["universal_newlines"]
    if text is not None and newlines is not None and bool(text) != bool(newlines):
        raise subprocess.SubprocessError("text and universal_newlines differ; pass one of them")
    encoding, errors = options["encoding"], options["errors"]
    if text or newlines or encoding or errors:
        codecs.lookup(encoding or "utf-8")
        codecs.lookup_error(errors or "strict")
        return TextMode(encoding or "utf-8", errors)
    return None


def _params(args: Command, options: SubprocessOptions, caller: Caller | None, **fields: Any) -> ExecParams:
    argv, arg0 = _with_executable(args, options)
    return ExecParams(
        argv=argv,
        arg0=arg0,
        merge_stderr=options["stderr"] == STDOUT,
        backpressure="pause",
        **fields,
        **common_fields(options, caller),
    )


def _with_executable(args: Command, options: SubprocessOptions) -> tuple[tuple[bytes, ...], bytes | None]:
    shell, executable = options["shell"], options["executable"]
    if executable is None:
        return argv_of(args, shell), None
    argv = argv_of(args, shell)
    (program,) = argv_of([executable], False)
    is_line = len(argv) > 2 and argv[:2] == (
        os.fsencode(SHELL if shell in (None, True) else str(shell)),
        b"-c",
    )
    return (program, *argv[1:]), None if is_line else argv[0]


def _captured(options: RunOptions) -> tuple[File, File]:
    stdout, stderr = options["stdout"], options["stderr"]
    capture = options["capture_output"]
    if capture and (stdout is not None or stderr is not None):
        raise ValueError("stdout and stderr arguments may not be used with capture_output.")
    if stdout == STDOUT:
        raise ValueError("STDOUT can only be used for stderr")
    default = INHERIT if capture is False else PIPE
    return default if stdout is None else stdout, default if stderr is None else stderr


def _or_inherit(target: File) -> File:
    return INHERIT if target is None else target


def _input(options: RunOptions, text: TextMode | None) -> memoryview | None:
    given = options["input"]
    if given is None:
        return None
    if options["stdin"] is not None:
        raise ValueError("stdin and input arguments may not both be used.")
    if isinstance(given, str):
        if text is None:
            raise TypeError("input must be bytes, or ask for text=True")
        return memoryview(text.encode(given))
    if text is not None:
        raise TypeError("input must be a str in text mode")
    return memoryview(given).cast("B")


def _max_output(value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"max_output must be bytes or None, not {type(value).__name__}")
    if value is not None and value < 0:
        raise InvalidRequest("max_output must not be negative")
    return value


_LOCAL_ONLY: dict[str, tuple[Any, ...]] = {
    "preexec_fn": (None,),
    "pass_fds": ((), [], None),
    "startupinfo": (None,),
    "creationflags": (0,),
    "user": (None,),
    "group": (None,),
    "extra_groups": (None,),
    "close_fds": (True,),
    "restore_signals": (True,),
    "process_group": (None, -1, 0),
}
"""Keywords that this process would have to carry out in the child, and the values that ask for nothing."""


def _refuse_local_only(options: Mapping[str, Any]) -> None:
    for name in options:
        if name in _LOCAL_ONLY and options[name] not in _LOCAL_ONLY[name]:
            raise ValueError(f"{name} cannot cross to the server that starts the command")
