"""The messages between a server and its keeper: JSON objects, one per packet, versioned.

Owns their names, their required fields and their bytes. Pure: descriptors travel beside a message and are
only named here. Unknown fields are ignored, so that an older and a newer program understand each other.
"""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

from execzmq.keeper.launch import SEGMENT_BYTES, Environment, Launch, Limit, SpawnError, Tty, entries_of

PROTOCOL_VERSION = 3
"""2: `segment_bytes` of `spawn`, `adopt`, `exit` without a status. 3: `gate`, `joins`, `scoped` and
`detached` of `spawn`, no `held`, a terminal that does not control, `listen`. Each end answers and reads the
older ones too."""

PROXY = "proxy"
"""Name under which a listener in a command's own network is held with the command."""

INTERNET = "internet"
"""Name of what lets the companion live that is a sandbox's network."""

SANDBOX = "sandbox"
"""Name of the pidfd of a sandbox's first process, with which all in it end."""

INSIDE = "inside"
"""Name of the pidfd of a command within what was started: its status is the one that counts."""

FEATURE_FOLLOWS_DEAD = "follows-dead"
"""In a keeper's `hello`: the one before it was killed, and not all that it had may have come to this one."""

Message = dict[str, Any]

_OLDER_KEEPER = (
    "the keeper of this server is of an older version and cannot do this: when its commands have ended, end "
    "the server with `execzmq shutdown` and start it again"
)

# One encoding on both sides, whatever the locale of either: names that are not UTF-8 pass as lone
# surrogates, escaped.
_CODEC = "utf-8"
_ERRORS = "surrogateescape"
_NUMBER = (int, float)
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True)
_DECODER = json.JSONDecoder()

FROM_SERVER: dict[str, dict[str, type | tuple[type, ...]]] = {
    "hello": {"version": int, "mode": str},
    "spawn": {"id": str, "argv": list, "env": str, "stdin": str},
    "release": {"id": str},
    "hold": {"id": str, "name": str},
    "mark": {"id": str, "flag": str, "on": bool},
    "close": {"id": str, "name": str},
    "forget": {"ids": list},
    "abandon": {"id": str},
    "adopt": {"id": str, "pid": int, "names": list, "started_at": _NUMBER},
    "listen": {"id": str, "port": int},
    "quit": {},
}
FROM_KEEPER: dict[str, dict[str, type | tuple[type, ...]]] = {
    "hello": {"version": int, "pid": int, "features": list},
    "refused": {"reason": str, "message": str},
    "spawned": {"id": str, "pid": int, "names": list, "released": bool, "marks": list, "started_at": _NUMBER},
    "proc": {"id": str, "pid": int, "names": list, "released": bool, "marks": list, "started_at": _NUMBER},
    "released": {"id": str},
    "exit": {"id": str, "status": (int, NoneType), "rusage": dict, "ended_at": _NUMBER},
    "listening": {"id": str},
    "ready": {},
    "error": {"request": str, "reason": str, "message": str, "details": dict},
}


class MessageError(ValueError):
    """Bytes that are not a message, or a message without what its kind needs.

    Attributes:
        reason: `bad_message` or `unknown_op`.
        op: the kind of the message, empty where it could not be read.
        process_id: the process that it spoke of, None where it could not be read.
    """

    def __init__(self, reason: str, text: str, op: str = "", process_id: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.op = op
        self.process_id = process_id


def text(raw: bytes) -> str:
    """Carry bytes in a JSON string, whatever they are."""
    return raw.decode(_CODEC, _ERRORS)


def raw(value: str) -> bytes:
    """Get the bytes back that `text` carried."""
    return value.encode(_CODEC, _ERRORS)


def encode(message: Message) -> bytes:
    """Write a message; equal messages give equal bytes."""
    return _ENCODER.encode(message).encode("ascii")


def decode(body: bytes, kinds: dict[str, dict[str, type | tuple[type, ...]]]) -> Message:
    """Read a message of one of these kinds.

    Raises:
        MessageError: `bad_message` if it is not JSON or lacks a field, `unknown_op` if its kind is not in
            the table.
    """
    try:
        words = body.decode("ascii")
        # A message has no blanks around it: json.loads would search for them.
        message, end = _DECODER.raw_decode(words)
    except (ValueError, RecursionError) as exc:
        raise MessageError("bad_message", f"a message is not JSON: {exc}") from exc
    if not isinstance(message, dict) or end != len(words):
        raise MessageError("bad_message", "a message is not a JSON object")
    op, process_id = message.get("op"), message.get("id")
    known_id = process_id if isinstance(process_id, str) else None
    if not isinstance(op, str):
        raise MessageError("bad_message", "a message has no op", process_id=known_id)
    if op not in kinds:
        raise MessageError("unknown_op", f"op {op!r} is not known here", op, known_id)
    for name, kind in kinds[op].items():
        if not isinstance(message.get(name), kind):
            raise MessageError("bad_message", f"{op}: field {name!r} is missing or wrong", op, known_id)
    return message


def spawn_message(launch: Launch) -> Message:
    """Write a checked launch as the `spawn` message; the descriptors go beside it in the order of `fds`."""
    return {
        "op": "spawn",
        "id": launch.process_id,
        "argv": [text(argument) for argument in launch.argv],
        "cwd": None if launch.cwd is None else text(launch.cwd),
        # One string, as /proc shows it: a hundred small ones would cost every start.
        "env": text(b"\0".join(entries_of(launch.env))),
        "umask": launch.umask,
        "arg0": None if launch.arg0 is None else text(launch.arg0),
        "limits": {name: list(pair) for name, pair in launch.limits.items()},
        "tty": None if launch.tty is None else list(launch.tty),
        "stdin": launch.stdin,
        "merge_stderr": launch.merge_stderr,
        "folder": None if launch.folder is None else text(launch.folder),
        "drain_limit_bytes": launch.drain_limit_bytes,
        "segment_bytes": launch.segment_bytes,
        "passed": dict(launch.passed),
        "gate": launch.gate,
        "joins": [text(path) for path in launch.joins],
        "scoped": launch.scoped,
        "detached": launch.detached,
        "fds": list(launch.descriptor_names),
    }


def launch_from(message: Message) -> Launch:
    """Read a launch back out of a `spawn` message.

    Raises:
        MessageError: a field has a value that no launch can have.
    """
    try:
        if message["stdin"] not in ("null", "pipe", "fd"):
            raise ValueError(f"stdin is {message['stdin']!r}")
        tty, limits, passed = message.get("tty"), message.get("limits", {}), message.get("passed", {})
        return Launch(
            process_id=message["id"],
            argv=tuple([raw(argument) for argument in message["argv"]]),
            cwd=optional_raw(message.get("cwd")),
            env=Environment(raw(message["env"])),
            umask=_optional_int(message.get("umask")),
            arg0=optional_raw(message.get("arg0")),
            limits=_limits_from(limits),
            tty=None if tty is None else Tty(int(tty[0]), int(tty[1]), *map(bool, tty[2:4])),
            stdin=message["stdin"],
            merge_stderr=bool(message.get("merge_stderr", False)),
            folder=optional_raw(message.get("folder")),
            drain_limit_bytes=_optional_int(message.get("drain_limit_bytes")),
            segment_bytes=int(message.get("segment_bytes", SEGMENT_BYTES)),
            passed={name: int(number) for name, number in passed.items()},
            gate=message.get("gate"),
            joins=tuple([raw(path) for path in message.get("joins", ())]),
            scoped=bool(message.get("scoped", False)),
            detached=bool(message.get("detached", False)),
        )
    except (TypeError, ValueError, AttributeError, LookupError) as exc:
        raise MessageError("bad_message", f"spawn: {exc}", "spawn", message["id"]) from exc


def _limits_from(pairs: dict[str, list[int | None]]) -> dict[str, Limit]:
    return {name: (_optional_int(soft), _optional_int(hard)) for name, (soft, hard) in pairs.items()}


def optional_raw(value: str | None) -> bytes | None:
    """Get the bytes back that `text` carried, if any."""
    return None if value is None else value.encode(_CODEC, _ERRORS)


def _optional_int(value: int | None) -> int | None:
    return None if value is None else int(value)


def error_message(op: str, process_id: str | None, error: SpawnError) -> Message:
    """Write a refusal with all that its reader needs to raise it again."""
    return {
        "op": "error",
        "request": op,
        "id": process_id,
        "reason": error.reason,
        "errno": error.errno,
        "message": error.message,
        "details": error.details,
    }


def spawn_error_from(message: Message) -> SpawnError:
    """Read a refusal back out of an `error` message."""
    if message["reason"] == "unknown_op":
        return SpawnError("unknown_op", None, _OLDER_KEEPER)
    return SpawnError(message["reason"], message.get("errno"), message["message"], message["details"])
