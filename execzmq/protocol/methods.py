"""Own the one table of requests and broadcasts: what server, client, documentation and tests agree on.

A field is written `name: type`, with `?` after the name where it may be missing or `None`. Types: `str`,
`bytes`, `int`, `float` (an int is accepted), `bool`, `map`, `list`. Fields that a receiver does not know are
ignored in replies and broadcasts and refused in requests, so that a request never means less than it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from execzmq.types.sharing import Role

Socket = Literal["shell", "control", "stdin"]
ROLES: tuple[Role, ...] = ("observer", "operator", "owner")
"""From the least to the most; a role may do what those before it may."""


@dataclass(slots=True, frozen=True)
class Method:
    """One request and its reply.

    Args:
        socket: the socket that answers it.
        role: the least role that may ask for it.
        idempotent: doing it twice does what doing it once does, so its answers need not be kept.
        epoch: the request carries the epoch of the server that it is meant for.
        request: fields of the request.
        reply: fields of an `ok` reply.
    """

    socket: Socket
    role: Role
    idempotent: bool
    epoch: bool
    request: tuple[str, ...]
    reply: tuple[str, ...]
    summary: str


_PROCESS = "process_id: str"
_START = (
    "process_id?: str",
    "name?: str",
    "argv: list",
    "cwd?: bytes",
    "env?: map",
    "env_policy?: map",
    "stdin: str",
    "tty?: map",
    "merge_stderr: bool",
    "timeout?: float",
    "timeout_grace: float",
    "lifetime: str",
    "backpressure: str",
    "log_budget?: int",
    "drain_limit?: float",
    "umask?: int",
    "arg0?: bytes",
    "limits?: map",
    "sandbox?: map",
)

METHODS: dict[str, Method] = {
    "kernel_info": Method(
        "shell",
        "observer",
        True,
        False,
        (),
        (
            "protocol_version: str",
            "implementation: str",
            "implementation_version: str",
            "language_info: map",
            "banner: str",
            "help_links: list",
            "execzmq: map",
        ),
        "Say what a Jupyter client asks first, and under `execzmq` what ours does.",
    ),
    "info": Method(
        "shell",
        "observer",
        True,
        False,
        (),
        (
            "pid: int",
            "epoch: str",
            "version: str",
            "name: str",
            "host: str",
            "role: str",
            "started_at: float",
            "statistics: map",
        ),
        "Describe the server.",
    ),
    "start": Method(
        "shell",
        "operator",
        False,
        True,
        ("epoch: str", *_START),
        ("process_id: str", "instance: int", "pid: int", "repeated: bool", "sandbox?: map"),
        "Start a command; with `stdin` = `data` the one buffer is what it reads.",
    ),
    "explain": Method(
        "shell",
        "operator",
        True,
        False,
        _START,
        ("argv: list", "arguments?: list", "cwd: bytes", "env: list", "env_changes?: map", "sandbox?: map"),
        "Check a start, and tell what it would become: nothing is started.",
    ),
    "profiles": Method(
        "shell",
        "operator",
        True,
        False,
        (),
        ("profiles: list",),
        "Describe the permission profiles that a start can name.",
    ),
    "list": Method(
        "shell",
        "observer",
        True,
        False,
        ("after?: str", "usage?: bool"),
        ("processes: list", "more?: bool"),
        "Describe the processes that were started after the one of that id, else all, oldest first;"
        " `more` tells that the last one is to be named for those that follow. `usage` measures them.",
    ),
    "describe": Method(
        "shell",
        "observer",
        True,
        False,
        ("id_or_name: str", "usage?: bool"),
        ("process: map",),
        "Find a process by id, by living name, or the newest finished of that name. `usage` measures it.",
    ),
    "read": Method(
        "shell",
        "observer",
        True,
        False,
        (
            _PROCESS,
            "instance?: int",
            "after_seq: int",
            "max_bytes?: int",
            "wait: float",
            "open: list",
            "by_file?: bool",
        ),
        (
            _PROCESS,
            "instance: int",
            "events: list",
            "file?: bytes",
            "device?: int",
            "inode?: int",
            "position?: int",
            "length?: int",
            "next_seq: int",
            "first_seq: int",
            "last_seq: int",
            "exited: bool",
            "closed: bool",
            "exit_code?: int",
            "signal?: int",
            "failure?: map",
            "dropped_bytes: map",
        ),
        "One page of the log; its output is end to end in the one buffer, or in `file` from `position` on.",
    ),
    "wait": Method(
        "shell",
        "observer",
        True,
        False,
        (_PROCESS, "instance?: int", "until: str", "timeout: float"),
        ("process: map",),
        "Answer when the process is `exited` or `closed`, or after `timeout` seconds.",
    ),
    "screen": Method(
        "shell",
        "observer",
        True,
        False,
        (_PROCESS, "instance?: int"),
        ("instance: int", "seq: int", "rows: int", "cols: int", "is_cut: bool"),
        "What the process's terminal shows after the event `seq`: the one buffer brings an empty terminal of"
        " that size to it.",
    ),
    "forget": Method(
        "shell",
        "operator",
        False,
        False,
        (_PROCESS, "instance?: int"),
        (),
        "Remove an ended process and its log.",
    ),
    "doctor": Method(
        "shell",
        "owner",
        True,
        False,
        (),
        ("findings: list",),
        "Check the server's folders, modes and limits; each finding has `name`, `ok`, `text`, `remedy`.",
    ),
    "signal": Method(
        "control",
        "operator",
        False,
        True,
        ("epoch: str", _PROCESS, "signal: int"),
        (),
        "Send a signal to the process group of the command.",
    ),
    "terminate": Method(
        "control",
        "operator",
        False,
        True,
        ("epoch: str", _PROCESS, "grace: float"),
        ("signalled: list", "ended: list", "survivors: list", "unattributed: list"),
        "End the whole tree: TERM, `grace` seconds, KILL.",
    ),
    "resize": Method(
        "control",
        "operator",
        False,
        True,
        ("epoch: str", _PROCESS, "rows: int", "cols: int"),
        (),
        "Set the size of the process's terminal.",
    ),
    "claim_keyboard": Method(
        "control",
        "operator",
        True,
        False,
        (_PROCESS, "take_over: bool"),
        (),
        "Let only this session write to and resize a terminal.",
    ),
    "release_keyboard": Method(
        "control",
        "operator",
        True,
        False,
        (_PROCESS,),
        (),
        "Give the keyboard back.",
    ),
    "lease": Method(
        "control",
        "observer",
        True,
        False,
        ("seconds: float", "cursors: map", "open: list"),
        ("epoch: str",),
        "Tell that this session lives, how far it has read, and which reads it still waits for.",
    ),
    "share": Method(
        "control",
        "owner",
        False,
        False,
        ("publickey: str", "role: str", "processes: list", "expires: float", "sandbox?: map"),
        (
            "share: map",
            "ip: str",
            "shell_port: int",
            "control_port: int",
            "stdin_port: int",
            "iopub_port: int",
            "hb_port: int",
            "serverkey: str",
            "host: str",
            "hostname: str",
        ),
        "Let in the holder of a key by tcp, narrowed to a role, and tell what else its connection file says.",
    ),
    "shares": Method(
        "control",
        "owner",
        True,
        False,
        (),
        ("shares: list",),
        "Describe the shares that are in force, the oldest first.",
    ),
    "revoke": Method(
        "control",
        "owner",
        False,
        False,
        ("share_id: str",),
        (),
        "Take a share back: from now on its holder is refused, and what it follows is cut.",
    ),
    "shutdown": Method(
        "control",
        "owner",
        False,
        True,
        ("epoch: str",),
        (),
        "End every process, then the server.",
    ),
    "write": Method(
        "stdin",
        "operator",
        False,
        True,
        ("epoch: str", _PROCESS, "offset: int", "end: bool"),
        ("offset: int",),
        "Append the one buffer to the process's stdin, at `offset` of what this session has written to it.",
    ),
}


Reach = Literal["all", "some", "none"]
"""Of what a role may ask a method: of everything, of what its share allows, of nothing."""

_OF_PROCESSES = {"list", "describe", "start", "explain"} | {
    name for name, method in METHODS.items() if _PROCESS in method.request
}


def reach_of(role: Role, name: str) -> Reach:
    """Tell of what a role may ask a method of the table."""
    if ROLES.index(role) < ROLES.index(METHODS[name].role):
        return "none"
    return "some" if role != "owner" and name in _OF_PROCESSES else "all"


@dataclass(slots=True, frozen=True)
class Broadcast:
    """One message type of the iopub socket; `topic` is what it is published under."""

    topic: str
    fields: tuple[str, ...]
    summary: str


_EVENT = (_PROCESS, "instance: int", "seq: int", "time: float")

BROADCASTS: dict[str, Broadcast] = {
    "iopub_welcome": Broadcast("{subscription}", ("subscription: str",), "This subscription is in force."),
    "process_started": Broadcast("p.{process_id}.started", (*_EVENT, "pid: int"), "The command runs."),
    "process_output": Broadcast(
        "p.{process_id}.{stream}",
        (*_EVENT, "stream: str", "offset: int", "behind?: bool"),
        "Output; with `behind` it carries no buffer and tells that the log has events up to `seq`.",
    ),
    "process_exited": Broadcast("p.{process_id}.exited", (*_EVENT, "result: map"), "The command has ended."),
    "process_closed": Broadcast("p.{process_id}.closed", (*_EVENT, "result: map"), "Nothing follows."),
    "process_failed": Broadcast("p.{process_id}.failed", (*_EVENT, "error: map"), "It could not be started."),
    "process_notice": Broadcast(
        "p.{process_id}.notice",
        (*_EVENT, "kind: str", "data: map"),
        "Something worth knowing.",
    ),
    "process_tail": Broadcast(
        "p.{process_id}.tail",
        (_PROCESS, "instance: int", "seq: int", "state: str"),
        "Repeats the last seq after a silence, so that a lost end shows.",
    ),
    "process_tails": Broadcast(
        "p.{family}*",
        ("tails: list",),
        "The tails of several processes, each `[process_id, instance, seq, state]`, whose ids begin alike.",
    ),
    "server_status": Broadcast("s.status", ("epoch: str", "status: str"), "The server starts or stops."),
}

EVENT_KINDS = ("started", "output", "exited", "closed", "failed", "notice", "gap")
"""First element of an entry of `events` in a `read_reply`.

`[kind, seq, time, ...]` with `pid` for started; `stream, offset, length` for output (its bytes are the next
`length` of the buffer); the result for exited and closed; the error for failed; `kind, data` for notice;
`to_seq, bytes` for gap, where `seq` is the first one that is gone.
"""
