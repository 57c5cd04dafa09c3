"""Own the tables that say which field of which dataclass has which form on the wire; know no message."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from execzmq.protocol.fields import (
    BOOLEAN,
    BYTES,
    INTEGER,
    NUMBER,
    PLAIN,
    READABLE,
    TEXT,
    Form,
    ListOf,
    MapOf,
    OneOf,
    Optional,
    PairOf,
    Record,
)
from execzmq.protocol.methods import ROLES
from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started, Stream
from execzmq.types.params import (
    Backpressure,
    EnvPolicy,
    ExecParams,
    Inherit,
    Lifetime,
    Limits,
    NetworkMode,
    SandboxIntent,
    StdinKind,
    TtySize,
)
from execzmq.types.results import (
    Cause,
    ExitResult,
    ProcessInfo,
    ProcessRef,
    ProcessUsage,
    ProfileInfo,
    ServerInfo,
    State,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo, ShareTerms

_TEXTS = ListOf(TEXT)
_READABLES = ListOf(READABLE)
_BYTES_LIST = ListOf(BYTES)
_VARIABLES = MapOf(BYTES, BYTES)
COUNTS = MapOf(TEXT, INTEGER)


EXIT_RESULT = Record(
    ExitResult,
    {
        "exit_code": Optional(INTEGER),
        "signal": Optional(INTEGER),
        "cause": OneOf(get_args(Cause)),
        "asked_by": READABLE,
        "started_at": NUMBER,
        "ended_at": NUMBER,
        "rusage": MapOf(TEXT, NUMBER),
        "output_bytes": COUNTS,
        "dropped_bytes": COUNTS,
        "held_open_by": ListOf(PairOf(INTEGER, READABLE)),
        "confidence": READABLE,
        "evidence": _READABLES,
    },
)
PROCESS_USAGE = Record(ProcessUsage, {"cpu_seconds": NUMBER, "memory_bytes": INTEGER, "processes": INTEGER})
PROCESS_INFO = Record(
    ProcessInfo,
    {
        "process_id": TEXT,
        "name": Optional(TEXT),
        "instance": INTEGER,
        "argv": _BYTES_LIST,
        "cwd": BYTES,
        "state": OneOf(get_args(State)),
        "pid": Optional(INTEGER),
        "started_at": NUMBER,
        "exited": BOOLEAN,
        "closed": BOOLEAN,
        "result": Optional(EXIT_RESULT),
        "last_seq": INTEGER,
        "output_bytes": COUNTS,
        "tty": BOOLEAN,
        "tty_size": Optional(Record(TtySize, {"rows": INTEGER, "cols": INTEGER})),
        "keyboard": Optional(TEXT),
        "failure": Optional(PLAIN),
        "sandbox": Optional(PLAIN),
        "usage": Optional(PROCESS_USAGE),
    },
)
SERVER_INFO = Record(
    ServerInfo,
    {
        "pid": INTEGER,
        "epoch": TEXT,
        "version": TEXT,
        "name": TEXT,
        "host": TEXT,
        "role": TEXT,
        "started_at": NUMBER,
        "statistics": COUNTS,
    },
)
PROFILE_INFO = Record(
    ProfileInfo, {"name": TEXT, "description": READABLE, "is_default": BOOLEAN, "fields": PLAIN}
)
_REFS = ListOf(Record(ProcessRef, {"pid": INTEGER, "command": READABLE}))
REPORT = Record(
    TerminateReport, {"signalled": _REFS, "ended": _REFS, "survivors": _REFS, "unattributed": _REFS}
)
ENV_POLICY = Record(
    EnvPolicy,
    {
        "inherit": OneOf(get_args(Inherit)),
        "exclude": _TEXTS,
        "set": _VARIABLES,
        "include_only": _TEXTS,
    },
)
LIMITS = Record(
    Limits,
    {name: Optional(INTEGER) for name in ("memory", "cpu", "processes", "file_size", "descriptors")},
)
SANDBOX = Record(
    SandboxIntent,
    {
        "profile": TEXT,
        "workspace_roots": _BYTES_LIST,
        "network": Optional(OneOf(get_args(NetworkMode))),
        "allowed_hosts": Optional(_TEXTS),
    },
)
SHARE_INFO = Record(
    ShareInfo,
    {
        "share_id": TEXT,
        "role": OneOf(ROLES),
        "processes": _TEXTS,
        "created_at": NUMBER,
        "expires_at": NUMBER,
        "sandbox": Optional(SANDBOX),
        "publickey": TEXT,
    },
)
SHARE_TERMS = Record(
    ShareTerms,
    {"role": OneOf(ROLES), "processes": _TEXTS, "expires": NUMBER, "sandbox": Optional(SANDBOX)},
)
PARAMS = Record(
    ExecParams,
    {
        "process_id": Optional(TEXT),
        "name": Optional(TEXT),
        "argv": _BYTES_LIST,
        "cwd": Optional(BYTES),
        "env": Optional(_VARIABLES),
        "env_policy": Optional(ENV_POLICY),
        "stdin": OneOf(get_args(StdinKind)),
        "merge_stderr": BOOLEAN,
        "timeout": Optional(NUMBER),
        "timeout_grace": NUMBER,
        "lifetime": OneOf(get_args(Lifetime)),
        "backpressure": OneOf(get_args(Backpressure)),
        "log_budget": Optional(INTEGER),
        "drain_limit": Optional(NUMBER),
        "umask": Optional(INTEGER),
        "arg0": Optional(BYTES),
        "limits": Optional(LIMITS),
        "sandbox": Optional(SANDBOX),
    },
)

EVENTS: dict[str, tuple[Callable[..., Event], dict[str, Form]]] = {
    "started": (Started, {"pid": INTEGER}),
    "output": (Output, {"stream": OneOf(get_args(Stream)), "offset": INTEGER}),
    "exited": (Exited, {"result": EXIT_RESULT}),
    "closed": (Closed, {"result": EXIT_RESULT}),
    "failed": (Failed, {"error": PLAIN}),
    "notice": (Notice, {"kind": READABLE, "data": PLAIN}),
    "gap": (Gap, {"to_seq": INTEGER, "bytes": INTEGER}),
}
"""What follows kind, seq and time in an entry of a page, and what a broadcast of that kind has as fields."""
