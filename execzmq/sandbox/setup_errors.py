"""Own the way from bwrap's last words to the error of a start that did not come about. Pure.

Only for a start without an `exit-code` document: while there is none, nothing but bwrap wrote to stderr, and
its words can be believed. bwrap runs with an empty environment, so that they are English. What can be seen on
the host (a missing interpreter, a folder) is told by whoever looks there; it is handed in as a function.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from execzmq.errors import (
    BadFormat,
    CommandNotFound,
    ExecZMQError,
    NotExecutable,
    SandboxUnavailable,
    SpawnFailed,
    WorkingDirectoryMissing,
)
from execzmq.sandbox.bwrap import SETSID
from execzmq.sandbox.sight import Sight


class Explained(NamedTuple):
    """What a look at the host says of a launch that failed at a step with an errno."""

    reason: str
    message: str
    details: Mapping[str, Any]


Explain = Callable[[str, int], Explained]
"""(`exec` or `cwd`, errno) → what was wrong, as it is told of a command without a sandbox."""

_NUMBERS = {os.strerror(number): number for number in errno.errorcode}
_BWRAP = re.compile(r"^bwrap: (.*)$", re.MULTILINE)
_STEP = re.compile(r"(?P<exec>execvp )|(?P<cwd>Can't chdir to )")
_EXEC_SETSID = re.compile(rf"execvp {re.escape(os.fsdecode(SETSID))}: ([^:]+)\Z")
_SETSID = re.compile(r"setsid: failed to execute (.*): ([^:]+)")
_CLASSES: dict[str, type[ExecZMQError]] = {
    "not_found": CommandNotFound,
    "interpreter_not_found": CommandNotFound,
    "hidden_by_sandbox": CommandNotFound,
    "not_executable": NotExecutable,
    "is_directory": NotExecutable,
    "denied_by_sandbox": NotExecutable,
    "bad_format": BadFormat,
    "cwd_missing": WorkingDirectoryMissing,
    "cwd_not_directory": WorkingDirectoryMissing,
    "cwd_hidden_by_sandbox": WorkingDirectoryMissing,
}
_NAMESPACES = (
    "let this user make user namespaces (execzmq doctor says how), or ask for the profile full-access"
)
_CHANGED = "a folder of the sandbox was replaced while it was set up; start it again"
_SETUP = (
    ("race_condition", r"Race condition binding|Unable to mount source on destination", _CHANGED),
    ("source_missing", r"Can't find source path|Can't get type of source|Can't stat fd", _CHANGED),
    (
        "too_many_namespaces",
        r"\(ENOSPC\)|max_\*_namespaces|Creating new namespace failed.*No space left",
        "raise user.max_user_namespaces, and run the server itself outside of a sandbox",
    ),
    ("no_namespaces", r"new namespace|Setting pidns failed|namespaces? failed", _NAMESPACES),
    (
        "no_uid_map",
        r"setting up [ug]id map",
        "run the server as an ordinary user, or give its container the capability SETFCAP",
    ),
    (
        "no_proc",
        r"Can't mount proc",
        "run the server outside of a container that masks /proc, or ask for the profile full-access",
    ),
    ("no_filter", r"seccomp|system call filtering", "run a kernel with CONFIG_SECCOMP_FILTER"),
    ("no_network_namespace", r"loopback: ", "let this user make network namespaces, or ask for network=host"),
    (
        "no_resources",
        r"Can't fork|Cannot allocate memory|Too many open files|Resource temporarily unavailable"
        r"|No space left on device",
        "end some commands, or raise the limit that was met, and start it again",
    ),
    ("bwrap_too_old", r"Unknown option|takes an argument|unknown cap", "upgrade bubblewrap to 0.8 or newer"),
)


def start_error(words: bytes, argv: tuple[bytes, ...], sight: Sight, explain: Explain) -> ExecZMQError:
    """Return the error of a sandboxed start that left no exit code.

    Args:
        words: what came on stderr.
        argv: of the command.
        sight: what the command would have seen.
        explain: asked once at most, for the reason that a launch without a sandbox would be given.
    """
    lines = _BWRAP.findall(words.decode("utf-8", "backslashreplace"))
    line = lines[-1] if lines else ""
    if (no_setsid := _EXEC_SETSID.match(line)) and argv[0] != SETSID:
        return _no_setsid(no_setsid[1])
    step = _STEP.match(line)
    number = _NUMBERS.get(line.rpartition(": ")[2].strip())
    if step and number is not None:
        return _launch_error(str(step.lastgroup), number, argv[0], sight, explain)
    return _setup_error(line)


def _no_setsid(why: str) -> SandboxUnavailable:
    program = os.fsdecode(SETSID)
    what = f"the command has no terminal: {program} cannot be executed in its sandbox ({why})"
    remedy = "install it (util-linux), make it executable and readable, or leave the terminal out"
    return SandboxUnavailable(f"{what}; {remedy}", reason="no_setsid", path=program)


def terminal_error(
    output: bytes, exit_code: int, argv: tuple[bytes, ...], sight: Sight, explain: Explain
) -> ExecZMQError | None:
    """Return the error of a start at a terminal, where setsid and not bwrap executes the command.

    `None` where the command ran: setsid's words must be all that was ever written, name this program and come
    with its exit code. A program that prints exactly this and nothing else is taken for one that did not run.
    """
    match = _SETSID.fullmatch(output.decode("utf-8", "surrogateescape").strip())
    if match is None or exit_code not in (126, 127) or os.fsencode(match[1]) != argv[0]:
        return None
    number = _NUMBERS.get(match[2])
    return None if number is None else _launch_error("exec", number, argv[0], sight, explain)


def _launch_error(step: str, number: int, program: bytes, sight: Sight, explain: Explain) -> ExecZMQError:
    told = explain(step, number)
    reason, message = _as_seen_inside(step, number, program, told, sight)
    cls = _CLASSES.get(reason, SpawnFailed)
    return cls(message, **{**told.details, "reason": reason, "errno": number})


def _as_seen_inside(step: str, number: int, program: bytes, told: Explained, sight: Sight) -> tuple[str, str]:
    """Correct what the host says by what the sandbox shows: there is more on the host than inside."""
    if step == "cwd":
        return _cwd_inside(number, told)
    path = str(told.details.get("path", ""))
    place = sight.at(os.fsencode(path)) if path.startswith("/") else "read"
    if place in ("hidden", "private"):
        return (
            "hidden_by_sandbox",
            f"{path} is on this host, but the sandbox does not show it; make it readable",
        )
    if place == "deny":
        return "denied_by_sandbox", f"{path} is denied by the profile; run another program"
    interpreter = str(told.details.get("interpreter", ""))
    if interpreter.startswith("/") and sight.at(os.fsencode(interpreter)) in ("hidden", "private", "deny"):
        words = f"the interpreter of {path} is not shown by the sandbox: {interpreter}; make it readable"
        return "hidden_by_sandbox", words
    return told.reason, told.message


def _cwd_inside(number: int, told: Explained) -> tuple[str, str]:
    cwd = str(told.details.get("cwd", ""))
    if told.reason in ("cwd_missing", "cwd_not_directory") or not cwd:
        return told.reason, told.message
    is_missing = number in (errno.ENOENT, errno.ENOTDIR)
    shown = "does not show it" if is_missing else "does not let it be entered"
    words = f"cwd {cwd} is on this host, but the sandbox {shown}; choose one in a root, or make it readable"
    return "cwd_hidden_by_sandbox" if is_missing else "cwd_denied", words


def _setup_error(line: str) -> SandboxUnavailable:
    for reason, words, remedy in _SETUP:
        if re.search(words, line):
            return SandboxUnavailable(
                f"the sandbox could not be set up: {line}; {remedy}", reason=reason, words=line
            )
    said = line or "bwrap ended without a word"
    message = f"the sandbox could not be set up: {said}; execzmq doctor looks for the reason"
    return SandboxUnavailable(message, reason="setup_failed", words=line)
