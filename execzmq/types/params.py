"""Own what a client says when it starts a process; know nothing of how it is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from execzmq.errors import InvalidRequest

Lifetime = Literal["server", "client"]
Backpressure = Literal["spill", "pause"]
StdinKind = Literal["null", "pipe", "data"]
Inherit = Literal["all", "core", "none", "profile"]
NetworkMode = Literal["none", "proxy", "internet", "host"]


SECRET_NAMES: tuple[str, ...] = (
    "*KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*COOKIE*",
    "*PRIVATE*",
    "AUTH_*",
    "*_AUTH",
    "*_AUTH_*",
    "*_PASS",
    "*_PAT",
    "*_PWD",
    "*_DSN",
    "*DATABASE_URL",
    "*CONNECTION_STRING*",
)
"""Patterns of variables that are likely to hold a secret or to lead to one; rather one too many."""


@dataclass(slots=True, frozen=True)
class EnvPolicy:
    """How the variables of a process are made from the base.

    Applied in this order: `inherit` picks from the base (`all`, `core`, `none`, or what the permission
    `profile` makes of it, which without a sandbox is all), names that match a pattern of `exclude` go, `set`
    is added, and if `include_only` is not empty all that match none of its patterns go. Patterns are
    `fnmatch` patterns, compared without regard to case.

    Names and values of `set` are str, bytes or paths, as `env` takes them; in `ExecParams` they are bytes.
    """

    inherit: Inherit = "profile"
    exclude: tuple[str, ...] = ()
    set: Mapping[Any, str | bytes | os.PathLike[Any]] = field(default_factory=dict)
    include_only: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class TtySize:
    """Size of a terminal in character cells, each 1 to 65,535."""

    rows: int = 24
    cols: int = 80


@dataclass(slots=True, frozen=True)
class Limits:
    """Resource limits set before the command's first instruction; `None` = no limit.

    `memory` (address space; of a sandbox all that it uses) and `file_size` are bytes, `cpu` is seconds of
    processor time, `processes` (which counts the command itself) and `descriptors` are counts.
    """

    memory: int | None = None
    cpu: int | None = None
    processes: int | None = None
    file_size: int | None = None
    descriptors: int | None = None

    def check(self) -> None:
        """Check that each is a whole number with which a command can run.

        Raises:
            InvalidRequest: one is not; `field` names it.
        """
        for one in fields(self):
            value, least = getattr(self, one.name), LEAST_LIMITS.get(one.name, 0)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"the limit of {one.name} is {value!r}: give a whole number of {_UNITS[one.name]}"
                raise InvalidRequest(message, field=f"limits.{one.name}")
            if value < least:
                message = f"with {one.name}={value} no command can run: ask for at least {least}"
                raise InvalidRequest(message, field=f"limits.{one.name}")


LEAST_LIMITS = {"memory": 4 << 20, "cpu": 1, "processes": 1}
"""What a command takes to get to its first instruction; of the other limits 0 will do."""
_UNITS = {
    "memory": "bytes, 1 << 30 for 1 GiB",
    "cpu": "seconds",
    "processes": "processes",
    "file_size": "bytes, 1 << 30 for 1 GiB",
    "descriptors": "descriptors",
}


@dataclass(slots=True, frozen=True)
class SandboxIntent:
    """What a sandboxed process may do: a permission profile, and what the client says to it.

    Args:
        profile: its name; empty = the server's default.
        workspace_roots: folders that the command may write to, where the profile allows that.
        network: instead of what the profile has, never more than the server allows; `None` = the profile's.
        allowed_hosts: with the network `proxy`: `NAME`, `NAME:PORT` or `*.NAME`, of a profile's list some;
            `None` = the profile's.
    """

    profile: str
    workspace_roots: tuple[bytes, ...] = ()
    network: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] | None = None


@dataclass(slots=True, frozen=True)
class ExecParams:
    """All that a client says about one command.

    Args:
        argv: program and arguments as bytes, at least one.
        process_id: id of the caller's choice, `[A-Za-z0-9_-]{1,64}`; `None` lets the backend make one.
        name: a second, readable name, unique among the living; `None` = none.
        cwd: working directory on the machine where the command runs; `None` = the base of that machine.
        env: the base of the variables; `None` = the base of that machine.
        env_policy: applied to the base; `None` = what the permission profile makes of it, else as it is.
        stdin: `null` (end of file at once), `pipe` (written to later) or `data` (exactly `stdin_data`).
        tty: give the command a terminal of `tty_size`; stdin is the terminal, stderr merges into stdout.
        tty_echo: whether the terminal echoes what is written to it.
        merge_stderr: join stderr to stdout in the child, so that their order holds.
        timeout: seconds after which the process tree is ended; `None` = no limit.
        timeout_grace: seconds between TERM and KILL when the time limit strikes; 0.0 = KILL at once.
        lifetime: `client` ends the process when the lease of the session that started it has run out.
        backpressure: `spill` never slows the command; `pause` lets it wait for the session that started it.
        log_budget: bytes of output that are kept at least; `None` = the server's default.
        drain_limit: seconds after the exit at which the streams count as ended; `None` = no limit.
        umask: file mode mask; `None` = the server's.
        arg0: what the program sees as its own name; `None` = `argv[0]`.
        sandbox: permission profile; `None` = the server's default.
    """

    argv: tuple[bytes, ...]
    process_id: str | None = None
    name: str | None = None
    cwd: bytes | None = None
    env: dict[bytes, bytes] | None = None
    env_policy: EnvPolicy | None = None
    stdin: StdinKind = "null"
    stdin_data: bytes = b""
    tty: bool = False
    tty_size: TtySize = TtySize()
    tty_echo: bool = True
    merge_stderr: bool = False
    timeout: float | None = None
    timeout_grace: float = 5.0
    lifetime: Lifetime = "server"
    backpressure: Backpressure = "spill"
    log_budget: int | None = None
    drain_limit: float | None = None
    umask: int | None = None
    arg0: bytes | None = None
    limits: Limits | None = None
    sandbox: SandboxIntent | None = None
