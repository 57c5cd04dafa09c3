"""Own what of a process an observer sees: name, state, output and result; not its words, folder or sandbox.

Pure. Commands, paths and hosts stand in more places than in `argv`: in why a start failed, in who holds the
output open, in the evidence of a denial, in notices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from execzmq.errors import Conflict, ExecZMQError
from execzmq.types.results import ExitResult, ProcessInfo

_PRIVATE: dict[str, list[Any]] = {"held_open_by": [], "evidence": []}
"""Fields of a result that name commands and paths, and what stands for them."""
_PLAIN_NOTICES = ("degraded", "recovered", "incomplete", "resized")
"""Kinds of notices that tell of the log and the screen alone."""


def seen_info(info: ProcessInfo) -> ProcessInfo:
    """Return what an observer is told of a process."""
    return replace(
        info,
        argv=(),
        cwd=b"",
        sandbox=None,
        keyboard=None,
        failure=seen_failure(info.failure),
        result=None if info.result is None else _seen_result(info.result),
    )


def _seen_result(result: ExitResult) -> ExitResult:
    return replace(result, held_open_by=(), evidence=())


def seen_failure(failure: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return why a command could not be started, by the kind of error alone."""
    if failure is None:
        return None
    return {"ename": failure.get("ename", ""), "evalue": "the command could not be started", "details": {}}


def seen_error(error: ExecZMQError, sees: Callable[[str], bool]) -> ExecZMQError:
    """Return what whoever does not see all is told of an error: not which process has a name."""
    details = error.details
    if not isinstance(error, Conflict) or "name" not in details or sees(details["process_id"]):
        return error
    return Conflict(f"the name {details['name']!r} is taken; choose another", name=details["name"])


def seen_entry(entry: list[Any]) -> list[Any]:
    """Return what an observer is told of an event of a page."""
    veil = _VEILS.get(entry[0])
    return entry if veil is None else veil(entry)


def hides_something(kind: str, payload: dict[str, Any]) -> bool:
    """Tell whether an event, as it is broadcast, says more than an observer is to know."""
    if kind in ("exited", "closed"):
        return any(payload.get(name) for name in _PRIVATE)
    return kind == "failed" or (kind == "notice" and payload.get("kind") not in _PLAIN_NOTICES)


def _veiled_end(entry: list[Any]) -> list[Any]:
    kind, seq, time, result = entry
    hidden = {name: empty for name, empty in _PRIVATE.items() if name in result}
    return [kind, seq, time, {**result, **hidden}]


def _veiled_failure(entry: list[Any]) -> list[Any]:
    return [*entry[:3], seen_failure(entry[3])]


def _veiled_notice(entry: list[Any]) -> list[Any]:
    return entry if entry[3] in _PLAIN_NOTICES else [*entry[:4], {}]


_VEILS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "exited": _veiled_end,
    "closed": _veiled_end,
    "failed": _veiled_failure,
    "notice": _veiled_notice,
}
