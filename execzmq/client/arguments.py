"""Own the keywords of `start` and `run` and how they become `ExecParams`; pure: what is the caller's own (its
folder and variables) is passed in.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, Final, TypeAlias, TypedDict, get_args

from execzmq.errors import InvalidRequest, WorkingDirectoryMissing
from execzmq.types.params import (
    Backpressure,
    EnvPolicy,
    ExecParams,
    Lifetime,
    Limits,
    NetworkMode,
    SandboxIntent,
    StdinKind,
    TtySize,
)

PIPE: Final = subprocess.PIPE
STDOUT: Final = subprocess.STDOUT
DEVNULL: Final = subprocess.DEVNULL
INHERIT: Final = -4
"""As `stdout` or `stderr`: write it to the caller's own as it comes. As `stdin`: read the caller's own."""

Word: TypeAlias = str | bytes | os.PathLike[Any]
Command: TypeAlias = Word | Sequence[Word]
File: TypeAlias = int | IO[Any] | None
Env: TypeAlias = Mapping[str, str] | Mapping[bytes, bytes]

SHELL = "/bin/sh"
LEAST_TIMEOUT = 0.0001
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_MOST_CELLS = 65535


class CommonOptions(TypedDict, total=False):
    """Keywords that `start` and `run` share.

    Args:
        cwd: working directory; `None` = the caller's on the caller's own machine, else the server's base.
        env: all variables (`{}` = none); `None` = as for `cwd`.
        env_policy: applied to `env` or what stands for it.
        process_id: id of the caller's choice, `[A-Za-z0-9_-]{1,64}`; `None` = made for you.
        name: a second, readable name, unique among the living.
        sandbox: permission profile; `None` = the server's default.
        workspace_roots: folders that the sandboxed command may write to; none = its working directory,
            unless that is / or holds the home.
        network: `none`, `proxy`, `internet` or `host`; `None` = the profile's.
        allowed_hosts: what `proxy` lets through: `NAME`, `NAME:PORT` or `*.NAME`, of a profile's list some;
            alone it means `proxy`.
        limits: resource limits set before the command's first instruction.
        log_budget: bytes of output that the server keeps at least; `None` = its default.
        umask: file mode mask; `None` or -1 = the server's.
    """

    cwd: Word | None
    env: Env | None
    env_policy: EnvPolicy | None
    process_id: str | None
    name: str | None
    sandbox: str | None
    workspace_roots: Iterable[Word]
    network: NetworkMode | None
    allowed_hosts: Iterable[str] | None
    limits: Limits | None
    log_budget: int | None
    umask: int | None


COMMON_DEFAULTS: CommonOptions = {
    "cwd": None,
    "env": None,
    "env_policy": None,
    "process_id": None,
    "name": None,
    "sandbox": None,
    "workspace_roots": (),
    "network": None,
    "allowed_hosts": None,
    "limits": None,
    "log_budget": None,
    "umask": None,
}


class StartOptions(CommonOptions, total=False):
    """Keywords of `start`, besides the common ones.

    Args:
        shell: `True`, or another shell than `/bin/sh`, takes a str as a line of it; `False` takes it as a
            program's name. By default a str is a line for `/bin/sh`, anything else is argv.
        arg0: what the program sees as its own name.
        stdin: `True` = a pipe to `write` to; bytes = exactly these; by default empty.
        stderr: `STDOUT` merges it into stdout in the child, so that their order holds.
        tty: give the command a terminal (its stdin too).
        size: rows and columns of the terminal, as a `TtySize` or a pair.
        tty_echo: whether the terminal echoes what is written to it.
        timeout: seconds after which the server ends the tree, whether or not the client still lives.
        timeout_grace: seconds between TERM and KILL when `timeout` strikes.
        lifetime: `client` ends the process when this client is closed, or its lease has run out.
        backpressure: `pause` lets the command wait for this client to read; `spill` never slows it.
        drain_limit: seconds after the exit at which the streams count as ended; `None` = no limit.
    """

    shell: bool | str | None
    arg0: Word | None
    stdin: bool | bytes | None
    stderr: int | None
    tty: bool
    size: TtySize | tuple[int, int] | None
    tty_echo: bool
    timeout: float | None
    timeout_grace: float
    lifetime: Lifetime
    backpressure: Backpressure
    drain_limit: float | None


START_DEFAULTS: StartOptions = {
    **COMMON_DEFAULTS,
    "shell": None,
    "arg0": None,
    "stdin": None,
    "stderr": None,
    "tty": False,
    "size": None,
    "tty_echo": True,
    "timeout": None,
    "timeout_grace": 5.0,
    "lifetime": "server",
    "backpressure": "spill",
    "drain_limit": None,
}


@dataclass(slots=True, frozen=True)
class Caller:
    """What a command on the caller's own machine gets by default; `cwd` is `None` where it is gone."""

    cwd: bytes | None
    env: dict[bytes, bytes]


def this_process() -> Caller:
    """Read the folder and the variables of this process as they are now."""
    try:
        cwd = os.getcwdb()
    except FileNotFoundError:
        return Caller(None, _own_variables())
    return Caller(cwd, _own_variables())


def _own_variables() -> dict[bytes, bytes]:
    """Copy the variables in one step, in which no other thread can change them.

    The mapping's own iteration asks for one after the other: it fails where one goes meanwhile, and makes up
    a good part of the time that a short command costs its caller.
    """
    stored = getattr(os.environb, "_data", None)
    if type(stored) is dict:
        variables = stored.copy()
        if {*map(type, variables), *map(type, variables.values())} <= {bytes}:
            return variables
    return dict(os.environb)  # a Python that keeps them in another way


def start_params(
    args: Command, options: StartOptions, caller: Caller | None, function: str = "start"
) -> ExecParams:
    """Return what `start(args, **options)` asks for.

    Args:
        function: that was called.
        caller: `None` where the command runs on another machine.

    Raises:
        TypeError: an unknown keyword, or a value of a wrong type.
        InvalidRequest: a value out of range, a NUL byte, a name outside its alphabet.
    """
    refuse_unknown(function, options, START_DEFAULTS)
    options = {**START_DEFAULTS, **options}
    argv = argv_of(args, options["shell"])
    tty, stdin = bool(options["tty"]), options["stdin"]
    arg0 = options["arg0"]
    merge = options["stderr"]
    if merge not in (None, STDOUT):
        raise InvalidRequest(f"{function}() knows stderr=STDOUT only; read the streams from the process")
    return ExecParams(
        argv=argv,
        arg0=None if arg0 is None else _word(arg0, "arg0"),
        stdin=_stdin_kind(stdin, tty),
        stdin_data=stdin if isinstance(stdin, bytes) else b"",
        tty=tty,
        tty_size=_size(options["size"]),
        tty_echo=bool(options["tty_echo"]),
        merge_stderr=merge == STDOUT,
        timeout=seconds(options["timeout"], "timeout", LEAST_TIMEOUT),
        timeout_grace=seconds(options["timeout_grace"], "timeout_grace") or 0.0,
        lifetime=one_of(options["lifetime"], "lifetime", ("server", "client")),
        backpressure=one_of(options["backpressure"], "backpressure", ("spill", "pause")),
        drain_limit=seconds(options["drain_limit"], "drain_limit"),
        **common_fields(options, caller),
    )


def refuse_unknown(function: str, options: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Raise the TypeError of a call with a keyword that the function does not have."""
    for name in options:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def common_fields(options: Mapping[str, Any], caller: Caller | None) -> dict[str, Any]:
    """Return the fields of `ExecParams` that `CommonOptions` decides; all of them must be there."""
    umask = options["umask"]
    return {
        "cwd": _cwd(options["cwd"], caller),
        "env": _env(options["env"], caller),
        "env_policy": _policy(options["env_policy"]) or _given_policy(options["env"]),
        "process_id": identifier(options["process_id"], "process_id"),
        "name": identifier(options["name"], "name"),
        "sandbox": sandbox_intent(options, caller),
        "limits": _limits(options["limits"]),
        "log_budget": options["log_budget"],
        "umask": None if umask == -1 else umask,
    }


def argv_of(args: Command, shell: bool | str | None) -> tuple[bytes, ...]:
    """Return the words to run.

    A str (or bytes) is a line for the shell unless `shell` is false; a sequence or a path is argv. With a
    shell named, a sequence is its line and then the line's `$0`, `$1` and so on.
    """
    line = isinstance(args, str | bytes)
    if shell is None:
        shell = line
    if shell and isinstance(args, os.PathLike):
        raise TypeError("a path is no shell line; give a str, or leave out shell")
    words = (args,) if isinstance(args, str | bytes | os.PathLike) else tuple(args)
    if not words:
        raise InvalidRequest("the command is empty")
    argv = tuple(_word(word, "an argument") for word in words)
    if not shell:
        if not argv[0]:
            raise InvalidRequest("the program's name is empty")
        return argv
    return (_word(SHELL if shell is True else shell, "shell"), b"-c", *argv)


def seconds(value: float | None, name: str, least: float = 0.0) -> float | None:
    """Return a duration of at least `least`, or `None` for no limit.

    Raises:
        TypeError: it is no number. InvalidRequest: it is not a number of seconds (NaN).
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be seconds or None, not {type(value).__name__}")
    if value != value:
        raise InvalidRequest(f"{name} is not a number")
    return None if value == float("inf") else max(float(value), least)


def _word(word: Word, what: str) -> bytes:
    if not isinstance(word, str | bytes | os.PathLike):
        raise TypeError(f"{what} must be str, bytes or a path, not {type(word).__name__}")
    try:
        encoded = os.fsencode(word)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} has a character that no Unix name can have: {error.reason}") from None
    if b"\0" in encoded:
        raise InvalidRequest(f"embedded null byte in {what}")
    return encoded


def _stdin_kind(stdin: bool | bytes | None, tty: bool) -> StdinKind:
    if stdin is not None and not isinstance(stdin, bool | bytes):
        raise TypeError(f"stdin must be True (a pipe), bytes, False or None, not {type(stdin).__name__}")
    if isinstance(stdin, bytes):
        if tty:
            raise InvalidRequest("a terminal has no stdin data of its own; write to the process")
        return "data"
    return "pipe" if stdin or tty else "null"


def _size(size: TtySize | tuple[int, int] | None) -> TtySize:
    if size is None:
        return TtySize()
    size = size if isinstance(size, TtySize) else TtySize(*size)
    if not (1 <= size.rows <= _MOST_CELLS and 1 <= size.cols <= _MOST_CELLS):
        raise InvalidRequest(f"a terminal has 1 to {_MOST_CELLS} rows and columns, not {size}")
    return size


def _instance(value: Any, name: str, wanted: type) -> Any:
    if value is None or isinstance(value, wanted):
        return value
    raise TypeError(f"{name} must be an execzmq.{wanted.__name__}, not {type(value).__name__}")


def _limits(limits: Limits | None) -> Limits | None:
    checked: Limits | None = _instance(limits, "limits", Limits)
    if checked is not None:
        checked.check()
    return checked


def one_of(value: Any, name: str, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise InvalidRequest(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def identifier(value: str | None, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not _NAME.match(value):
        raise InvalidRequest(f"{name} must be 1 to 64 of A-Z a-z 0-9 _ -, not {value!r}")
    return value


def _cwd(cwd: Word | None, caller: Caller | None) -> bytes | None:
    wanted = None if cwd is None else _word(cwd, "cwd")
    if caller is None or (wanted is not None and os.path.isabs(wanted)):
        return wanted
    if caller.cwd is None:
        raise WorkingDirectoryMissing("the current directory no longer exists; give cwd an absolute path")
    return caller.cwd if wanted is None else os.path.join(caller.cwd, wanted)


def _env(env: Env | None, caller: Caller | None) -> dict[bytes, bytes] | None:
    if env is None:
        return None if caller is None else caller.env
    return _variables(env, "env")


def _policy(policy: EnvPolicy | None) -> EnvPolicy | None:
    checked: EnvPolicy | None = _instance(policy, "env_policy", EnvPolicy)
    return checked and replace(checked, set=_variables(checked.set, "the set of env_policy"))


def _variables(variables: Mapping[Any, Word], what: str) -> dict[bytes, bytes]:
    if not isinstance(variables, Mapping):
        raise TypeError(f"{what} must be a mapping of variables, not {type(variables).__name__}")
    encoded = {
        _word(name, f"a name in {what}"): _word(value, f"{name!r} in {what}")
        for name, value in variables.items()
    }
    for name in encoded:
        if not name or b"=" in name:
            raise InvalidRequest(f"illegal environment variable name {os.fsdecode(name)!r} in {what}")
    return encoded


def _given_policy(env: Env | None) -> EnvPolicy | None:
    # What the caller names is passed on as it is; what stands for it is the profile's to shape.
    return EnvPolicy(inherit="all") if env else None


def sandbox_intent(options: Mapping[str, Any], caller: Caller | None) -> SandboxIntent | None:
    profile, roots, hosts = options["sandbox"], options["workspace_roots"], options["allowed_hosts"]
    if isinstance(roots, str | bytes | os.PathLike):
        raise TypeError("workspace_roots must be a list of paths, not one path")
    if isinstance(hosts, str | bytes):
        raise TypeError("allowed_hosts must be a list of names, not one name")
    encoded = tuple(_root(root, caller) for root in roots)
    named = None if hosts is None else tuple(map(_host, hosts))
    network = options["network"]
    if network is not None:
        one_of(network, "network", get_args(NetworkMode))
    if profile is None:
        if encoded or network is not None or named is not None:
            return SandboxIntent("", encoded, network, named)
        return None
    return SandboxIntent(identifier(profile, "sandbox") or "", encoded, network, named)


def _root(root: Word, caller: Caller | None) -> bytes:
    encoded = _word(root, "workspace_roots")
    if caller is None or caller.cwd is None or os.path.isabs(encoded):
        return encoded
    return os.path.join(caller.cwd, encoded)


def _host(host: object) -> str:
    if not isinstance(host, str):
        raise TypeError(f"a name in allowed_hosts must be a str, not {type(host).__name__}")
    return host
