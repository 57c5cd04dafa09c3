"""Own the rules by which one complaint of a program is, or is not, a refusal of its sandbox. Pure.

One rule for each kind of error. A rule knows what the sandbox shows and what the host would do; it does not
know how the command ended, nor what else was said.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import NamedTuple

from execzmq.sandbox.ending import Confidence, Ending, Evidence
from execzmq.sandbox.sight import Outside, Reach, Sight, absolute
from execzmq.sandbox.wordings import (
    MOST_SHOWN,
    Complaint,
    excerpt,
    has_other_host,
    operation_in,
    paths_in,
    port_in,
)

_MOST_LOOKS = 48
_NO_NAME = re.compile(r"\.(?:invalid|test|example|localhost)\b(?!\.\w)", re.IGNORECASE)
_CAPABILITIES = {
    "mount": 21,
    "owner": 0,
    "node": 27,
    "chroot": 18,
    "hostname": 21,
    "clock": 25,
    "user": 7,
    "network": 12,
    "raw_socket": 13,
    "bind": 10,
    "priority": 23,
    "modules": 16,
    "kernel_log": 34,
    "rlimit": 24,
    "kill": 5,
}
"""Operation → the capability that it needs: a sandbox has none, the user outside may have it."""


class Finding(NamedTuple):
    confidence: Confidence
    evidence: Evidence


class Case:
    """One ending, with what the sandbox and the host have at a path."""

    def __init__(self, ending: Ending, outside: Outside) -> None:
        self.ending = ending
        self.outside = outside
        self.sight = Sight(ending.permissions.read, ending.mounts)
        self.script = " ".join(word.decode("utf-8", "surrogateescape") for word in ending.argv[1:])
        self.is_superuser = bool(outside.has_capability(1))
        self._looks = 0

    def resolve(self, path: bytes) -> bytes:
        """Return a path of the output as the host has it; at the end of the patience as it stands."""
        named = absolute(path, self.ending.cwd)
        self._looks += 1
        return named if self._looks > _MOST_LOOKS else self.outside.resolve(named)

    def guesses(self, complaint: Complaint) -> tuple[bytes, ...]:
        """Return paths that a complaint may be about that names none, or one relative to who knows what."""
        folders = (*complaint.near, *paths_in(self.script), self.ending.cwd)
        below = tuple(posixpath.join(folder, path) for folder in folders for path in complaint.paths[:1])
        return (*folders, *below)


def seen(rule: str, subject: str | bytes, complaint: Complaint) -> Evidence:
    name = subject if isinstance(subject, str) else subject.decode("utf-8", "backslashreplace")
    line = excerpt(complaint.line).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return Evidence(rule, name, complaint.stream, line[:MOST_SHOWN])


def _read_only(case: Case, complaint: Complaint) -> Finding | None:
    """EROFS: a path that the sandbox shows read-only and that could be written outside."""
    found = _write_refused(case, complaint, complaint.paths, "high")
    if found is None and not any(path.startswith(b"/") for path in complaint.paths):
        return _write_refused(case, complaint, case.guesses(complaint), "medium")
    return found


def _write_refused(
    case: Case, complaint: Complaint, paths: tuple[bytes, ...], confidence: Confidence
) -> Finding | None:
    reach: Reach = "remove" if complaint.reach == "remove" else "write"
    for path in map(case.resolve, paths):
        if case.sight.at(path) in ("read", "hidden") and _could_write(case, path, reach):
            return Finding(confidence, seen("not_writable", path, complaint))
    return None


def _could_write(case: Case, path: bytes, reach: Reach) -> bool:
    """Tell whether the host would do it; what is not there is not removed, nor made in a missing folder.

    In a name that is kept missing the command would have made the folders itself.
    """
    needed = path if reach == "remove" else posixpath.dirname(path)
    kept = case.sight.mount_of(path)
    if reach != "remove" and kept not in (b"", path) and case.sight.at(posixpath.dirname(kept)) == "write":
        needed = posixpath.dirname(kept)
    return bool(case.outside.exists(needed) and case.outside.may(path, reach))


def _denied(case: Case, complaint: Complaint) -> Finding | None:
    """EACCES: a path that is covered, or that only a superuser's powers open, or an operation."""
    for path in map(case.resolve, complaint.paths):
        place = case.sight.at(path)
        reach: Reach = "write" if complaint.reach == "write" else "read"
        if place == "deny" and case.outside.may(path, reach):
            return Finding("high", seen("not_readable", path, complaint))
        if place in ("read", "write") and case.is_superuser and _needs_powers(case, path):
            return Finding("medium", seen("no_privilege", path, complaint))
    return _operation(case, complaint, complaint.operation)


def _needs_powers(case: Case, path: bytes) -> bool:
    ways: tuple[Reach, ...] = ("read", "write")
    return any(case.outside.may(path, way) and case.outside.may_plainly(path, way) is False for way in ways)


def _not_permitted(case: Case, complaint: Complaint) -> Finding | None:
    """EPERM: an operation that the filter stops for all, or that needs a power that the user has outside."""
    name = complaint.operation or operation_in(case.script)
    if name:
        return _operation(case, complaint, name)
    if case.is_superuser and any(case.outside.exists(case.resolve(path)) for path in complaint.paths):
        return Finding("medium", seen("no_privilege", "superuser", complaint))
    return Finding("low", seen("not_permitted", "unknown", complaint))


def _invalid(case: Case, complaint: Complaint) -> Finding | None:
    """EINVAL: an owner or a user that the sandbox does not have."""
    name = complaint.operation or operation_in(case.script)
    return _operation(case, complaint, name) if name in ("owner", "user") else None


def _not_implemented(case: Case, complaint: Complaint) -> Finding | None:
    return _operation(case, complaint, complaint.operation) if complaint.operation == "io_uring" else None


def _operation(case: Case, complaint: Complaint, name: str) -> Finding | None:
    capability = _CAPABILITIES.get(name)
    if capability is not None:
        has_power = case.outside.has_capability(capability)
        return Finding("medium", seen("no_privilege", name, complaint)) if has_power else None
    if name in ("namespace", "io_uring") or (name == "trace" and not case.ending.permissions.allow_debug):
        return Finding("medium", seen("not_allowed", name, complaint))
    if name == "mode" and any(case.outside.may(case.resolve(path), "own") for path in complaint.paths):
        return Finding("medium", seen("not_allowed", name, complaint))
    return None


def _missing(case: Case, complaint: Complaint) -> Finding | None:
    """ENOENT: a path that the host has and the sandbox does not show."""
    for path in map(case.resolve, complaint.paths):
        if not case.outside.exists(path) or not case.outside.may(path, "read"):
            continue
        if _is_hidden(case, path):
            return Finding("high", seen("hidden", path, complaint))
        if case.sight.at(path) == "deny":
            return Finding("medium", seen("not_readable", path, complaint))
    return None


def _unopened(case: Case, complaint: Complaint) -> Finding | None:
    """No word of why: a path that is covered or hidden is reason enough."""
    found = _missing(case, complaint)
    for path in map(case.resolve, complaint.paths):
        if case.sight.at(path) == "deny" and case.outside.exists(path) and case.outside.may(path, "read"):
            found = Finding("medium", seen("not_readable", path, complaint))
    if found is None and complaint.reach == "write":
        found = _write_refused(case, complaint, complaint.paths, "medium")
    return found and found._replace(confidence="medium")


def _is_hidden(case: Case, path: bytes) -> bool:
    return path != b"/" and case.sight.at(path) in ("hidden", "private")


def _busy(case: Case, complaint: Complaint) -> Finding | None:
    """EBUSY: a place of the view itself cannot be moved or removed."""
    mounts = {path for path, _ in case.ending.mounts}
    for path in map(case.resolve, complaint.paths):
        if path in mounts and case.outside.may(path, "remove"):
            return Finding("high", seen("mount_point", path, complaint))
    return None


def _cross_device(case: Case, complaint: Complaint) -> Finding | None:
    """EXDEV: one file system outside, two mounts inside."""
    paths = tuple(map(case.resolve, complaint.paths[:2]))
    if len({case.sight.file_system_of(path) for path in paths}) == 2 and case.outside.is_one_device(paths):
        return Finding("high", seen("other_mount", paths[1], complaint))
    return None


def _no_space(case: Case, complaint: Complaint) -> Finding | None:
    """ENOSPC: a temporary folder of the sandbox's own is full, or user namespaces are used up on purpose."""
    if complaint.operation == "namespace":
        return _operation(case, complaint, "namespace")
    for path in map(case.resolve, complaint.paths):
        if case.sight.at(path) == "private":
            return Finding("high", _tmp_full(case, complaint))
    if any(case.sight.at(path) == "private" for path in map(case.resolve, paths_in(case.script))):
        return Finding("medium", _tmp_full(case, complaint))
    return None


def _tmp_full(case: Case, complaint: Complaint) -> Evidence:
    return seen("tmp_full", f"{case.ending.permissions.tmp_bytes} bytes", complaint)


def _no_network(case: Case, complaint: Complaint) -> Finding | None:
    """Names and addresses that cannot be reached where nothing can, on a host that could."""
    mode = case.ending.permissions.network.mode
    is_made_up = _NO_NAME.search(complaint.line) or _NO_NAME.search(case.script)
    if mode not in ("none", "proxy") or is_made_up:
        return None
    if case.outside.is_online() is False:
        return Finding("low", seen("no_network", mode, complaint))
    return Finding("medium", seen("no_network", mode, complaint))


def _connection_refused(case: Case, complaint: Complaint) -> Finding | None:
    """ECONNREFUSED on the own loopback, where the host's has somebody who listens."""
    if has_other_host(complaint.line):
        return _no_network(case, complaint)
    port = complaint.port or port_in(case.script)
    if case.ending.permissions.network.mode == "host" or port is None or not case.outside.listens(port):
        return None
    confidence: Confidence = "high" if complaint.port else "medium"
    return Finding(confidence, seen("host_loopback", f"port {port}", complaint))


def _proxied(case: Case, complaint: Complaint) -> Finding | None:
    """The proxy's own words: what it has refused is known from itself, and not from what is printed."""
    return None


RULES: dict[str, Callable[[Case, Complaint], Finding | None]] = {
    "read_only": _read_only,
    "cross_device": _cross_device,
    "busy": _busy,
    "no_space": _no_space,
    "unresolved": _no_network,
    "unreachable": _no_network,
    "proxied": _proxied,
    "refused": _connection_refused,
    "not_permitted": _not_permitted,
    "denied": _denied,
    "missing": _missing,
    "invalid": _invalid,
    "unopened": _unopened,
    "not_implemented": _not_implemented,
}
