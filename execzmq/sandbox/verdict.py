"""Own the decision whether a failed command was refused something by its sandbox. Pure.

Words alone do not tell: an ordinary file of mode 000 is answered with the same `Permission denied`. So what a
program complains of is compared twice: with what the sandbox shows at the path, or lets through of the
operation, and with what the host says would be possible without it. Only a refusal that the sandbox made, and
that the host would not have made, is the sandbox's.

Confidence, and what is done with it (`docs/explanation/sandbox-verdicts.md` has the numbers measured):

* `high`: the error fits a path and its place in the sandbox, and the host would have allowed it; or the proxy
  refused what the output names.
* `medium`: the operation is one that the sandbox always refuses and this user could do outside; or a path is
  known, but one thing speaks against its being why the command failed.
* `low`: the words fit and nothing proves them. This is never a cause: the evidence is told, no more.
"""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from execzmq.sandbox.model import Access, Permissions
from execzmq.sandbox.sight import Outside, Reach, Sight, absolute
from execzmq.sandbox.wordings import Complaint, complaints, has_other_host, operation_in, paths_in, port_in

Confidence = Literal["high", "medium", "low", ""]

_LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
_TOLD = 5
_MOST_LOOKS = 48
_SPEECHLESS = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGKILL,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGXCPU,
    signal.SIGXFSZ,
}
"""Signals whose end is explained by themselves: what was printed before is not why."""

_SHELLS = (b"sh", b"bash", b"dash", b"zsh", b"ksh")
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


class Evidence(NamedTuple):
    """One thing that was seen.

    Attributes:
        rule: stable name of what it shows, such as `not_writable` or `no_network`.
        subject: path, host, operation or counter that it is about.
        place: where it was seen: `stderr`, `stdout`, `status`, `proxy` or `limits`.
        line: the line, cut to 200 characters; empty where none was printed.
    """

    rule: str
    subject: str
    place: str
    line: str = ""

    def __str__(self) -> str:
        line = f": {self.line}" if self.line else ""
        return f"{self.rule} {self.subject} ({self.place}{line})"


class Verdict(NamedTuple):
    """Why a command failed, as far as the sandbox has to do with it.

    Attributes:
        cause: `None` = not because of the sandbox, as far as is known.
        confidence: of `sandbox_denied`; `low` comes without a cause; empty = nothing points at the sandbox.
        evidence: the strongest first.
    """

    cause: Literal["sandbox_denied", "oom"] | None = None
    confidence: Confidence = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(slots=True, frozen=True)
class Ending:
    """The facts of an end.

    Args:
        exit_code: of the command; `None` = a signal ended it. 128 + n is also taken as signal n.
        signal: that ended it; `None` = it exited.
        argv: of the command.
        cwd: its working directory, absolute and resolved.
        stdout: the end of it; what is joined or comes from a terminal is all here. 16 KiB are enough.
        stderr: the end of it.
        permissions: as applied.
        mounts: (path, access) of each mount of the view, in order.
        refused_hosts: `NAME:PORT` that the proxy refused.
        oom_kills: how far the counter of its cgroup rose.
        forks_refused: how far the counter of its cgroup's process limit rose.
        was_asked: a client, a time limit or the server's end ended it.
    """

    exit_code: int | None
    signal: int | None
    argv: tuple[bytes, ...]
    cwd: bytes
    stdout: bytes
    stderr: bytes
    permissions: Permissions
    mounts: tuple[tuple[bytes, Access], ...] = ()
    refused_hosts: tuple[str, ...] = ()
    oom_kills: int = 0
    forks_refused: int = 0
    was_asked: bool = False

    @property
    def killed_by(self) -> int | None:
        """Return the signal that ended it, also where a shell or bwrap tells it as 128 + n."""
        if self.signal is None and self.exit_code is not None and 128 < self.exit_code <= 192:
            return self.exit_code - 128
        return self.signal


class _Finding(NamedTuple):
    confidence: Confidence
    evidence: Evidence


def judge(ending: Ending, outside: Outside) -> Verdict:
    """Return whether the sandbox is why a command failed.

    Success is never a denial, nor is an end that somebody asked for. `outside` is asked at most some fifty
    times, and only about paths and operations that the sandbox refuses.
    """
    if ending.was_asked or (ending.exit_code == 0 and ending.signal is None):
        return Verdict()
    if ending.oom_kills:
        return Verdict("oom", "", (Evidence("oom", f"{ending.oom_kills} killed", "limits"),))
    case = _Case(ending, outside)
    findings = sorted(_findings(case), key=lambda finding: -_LEVELS.index(finding.confidence))
    evidence = tuple(dict.fromkeys(finding.evidence for finding in findings))[:_TOLD]
    limits = tuple(_limits(ending))
    if not findings:
        return Verdict(None, "", limits)
    best = findings[0].confidence
    return Verdict(None if best == "low" else "sandbox_denied", best, evidence + limits)


class _Case:
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


def _findings(case: _Case) -> Iterator[_Finding]:
    ending = case.ending
    found = complaints(ending.stdout, ending.stderr)
    if ending.killed_by == signal.SIGSYS:
        yield _Finding(_filter_confidence(ending), Evidence("killed_by_filter", "SIGSYS", "status"))
    yield from _of_proxy(ending, found)
    if ending.killed_by in _SPEECHLESS:
        return
    for complaint in found:
        finding = _RULES[complaint.kind](case, complaint)
        if finding is not None:
            yield _doubted(finding, complaint)


def _filter_confidence(ending: Ending) -> Confidence:
    """A shell says `Bad system call` of its commands; without it the code may be its own `exit 159`."""
    is_shell = ending.argv[0].rpartition(b"/")[2] in _SHELLS
    return "low" if is_shell and b"bad system call" not in ending.stderr.lower() else "medium"


def _doubted(finding: _Finding, complaint: Complaint) -> _Finding:
    """Lower the confidence by what speaks against the line's being why the command failed."""
    if {"warning", "quoted"} & set(complaint.doubts):
        return finding._replace(confidence="low")
    level = _LEVELS.index(finding.confidence) - len(complaint.doubts)
    return finding._replace(confidence=_LEVELS[max(0, level)])


def _seen(rule: str, subject: str | bytes, complaint: Complaint) -> Evidence:
    name = subject if isinstance(subject, str) else subject.decode("utf-8", "backslashreplace")
    line = complaint.line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return Evidence(rule, name, complaint.stream, line[:200])


def _of_proxy(ending: Ending, found: list[Complaint]) -> Iterator[_Finding]:
    """What the proxy refused is certain; that it mattered is where the output speaks of it."""
    output = ending.stdout + ending.stderr
    is_about_network = any(complaint.kind in ("unresolved", "unreachable", "refused") for complaint in found)
    for host in ending.refused_hosts:
        is_named = host.rpartition(":")[0].encode() in output
        confidence: Confidence = "high" if is_named or is_about_network or not output.strip() else "medium"
        yield _Finding(confidence, Evidence("proxy_refused", host, "proxy"))


def _limits(ending: Ending) -> Iterator[Evidence]:
    """Tell which limits were met: they are no refusals, but whoever reads the result wants to know."""
    limits = ending.permissions.limits
    if ending.killed_by == signal.SIGXFSZ and limits.file_size is not None:
        yield Evidence("limit", f"file_size={limits.file_size}", "status")
    if ending.killed_by in (signal.SIGXCPU, signal.SIGKILL) and limits.cpu is not None:
        yield Evidence("limit", f"cpu={limits.cpu}", "status")
    if ending.forks_refused:
        yield Evidence("limit", f"processes={limits.processes}", "limits")


def _read_only(case: _Case, complaint: Complaint) -> _Finding | None:
    """EROFS: a path that the sandbox shows read-only and that could be written outside."""
    found = _write_refused(case, complaint, complaint.paths, "high")
    if found is None and not any(path.startswith(b"/") for path in complaint.paths):
        return _write_refused(case, complaint, case.guesses(complaint), "medium")
    return found


def _write_refused(
    case: _Case, complaint: Complaint, paths: tuple[bytes, ...], confidence: Confidence
) -> _Finding | None:
    reach: Reach = "remove" if complaint.reach == "remove" else "write"
    for path in map(case.resolve, paths):
        if case.sight.at(path) in ("read", "hidden") and case.outside.may(path, reach):
            return _Finding(confidence, _seen("not_writable", path, complaint))
    return None


def _denied(case: _Case, complaint: Complaint) -> _Finding | None:
    """EACCES: a path that is covered, or that only a superuser's powers open, or an operation."""
    for path in map(case.resolve, complaint.paths):
        place = case.sight.at(path)
        reach: Reach = "write" if complaint.reach == "write" else "read"
        if place == "deny" and case.outside.may(path, reach):
            return _Finding("high", _seen("not_readable", path, complaint))
        if place in ("read", "write") and case.is_superuser and _needs_powers(case, path):
            return _Finding("medium", _seen("no_privilege", path, complaint))
    return _operation(case, complaint, complaint.operation)


def _needs_powers(case: _Case, path: bytes) -> bool:
    ways: tuple[Reach, ...] = ("read", "write")
    return any(case.outside.may(path, way) and case.outside.may_plainly(path, way) is False for way in ways)


def _not_permitted(case: _Case, complaint: Complaint) -> _Finding | None:
    """EPERM: an operation that the filter stops for all, or that needs a power that the user has outside."""
    name = complaint.operation or operation_in(case.script)
    if name:
        return _operation(case, complaint, name)
    if case.is_superuser and any(case.outside.exists(case.resolve(path)) for path in complaint.paths):
        return _Finding("medium", _seen("no_privilege", "superuser", complaint))
    return _Finding("low", _seen("not_permitted", "unknown", complaint))


def _invalid(case: _Case, complaint: Complaint) -> _Finding | None:
    """EINVAL: an owner or a user that the sandbox does not have."""
    name = complaint.operation or operation_in(case.script)
    return _operation(case, complaint, name) if name in ("owner", "user") else None


def _not_implemented(case: _Case, complaint: Complaint) -> _Finding | None:
    return _operation(case, complaint, complaint.operation) if complaint.operation == "io_uring" else None


def _operation(case: _Case, complaint: Complaint, name: str) -> _Finding | None:
    capability = _CAPABILITIES.get(name)
    if capability is not None:
        has_power = case.outside.has_capability(capability)
        return _Finding("medium", _seen("no_privilege", name, complaint)) if has_power else None
    if name in ("namespace", "io_uring") or (name == "trace" and not case.ending.permissions.allow_debug):
        return _Finding("medium", _seen("not_allowed", name, complaint))
    if name == "mode" and any(case.outside.may(case.resolve(path), "own") for path in complaint.paths):
        return _Finding("medium", _seen("not_allowed", name, complaint))
    return None


def _missing(case: _Case, complaint: Complaint) -> _Finding | None:
    """ENOENT: a path that the host has and the sandbox does not show."""
    for path in map(case.resolve, complaint.paths):
        if not _is_hidden(case, path) or not case.outside.exists(path):
            continue
        if case.outside.may(path, "read"):
            return _Finding("high", _seen("hidden", path, complaint))
    return None


def _unopened(case: _Case, complaint: Complaint) -> _Finding | None:
    """No word of why: a path that is covered or hidden is reason enough."""
    found = _missing(case, complaint)
    for path in map(case.resolve, complaint.paths):
        if case.sight.at(path) == "deny" and case.outside.exists(path) and case.outside.may(path, "read"):
            found = _Finding("medium", _seen("not_readable", path, complaint))
    if found is None and complaint.reach == "write":
        found = _write_refused(case, complaint, complaint.paths, "medium")
    return found and found._replace(confidence="medium")


def _is_hidden(case: _Case, path: bytes) -> bool:
    return path != b"/" and case.sight.at(path) in ("hidden", "private")


def _busy(case: _Case, complaint: Complaint) -> _Finding | None:
    """EBUSY: a place of the view itself cannot be moved or removed."""
    mounts = {path for path, _ in case.ending.mounts}
    for path in map(case.resolve, complaint.paths):
        if path in mounts and case.outside.may(path, "remove"):
            return _Finding("high", _seen("mount_point", path, complaint))
    return None


def _cross_device(case: _Case, complaint: Complaint) -> _Finding | None:
    """EXDEV: one file system outside, two mounts inside."""
    paths = tuple(map(case.resolve, complaint.paths[:2]))
    if len({case.sight.file_system_of(path) for path in paths}) == 2 and case.outside.is_one_device(paths):
        return _Finding("high", _seen("other_mount", paths[1], complaint))
    return None


def _no_space(case: _Case, complaint: Complaint) -> _Finding | None:
    """ENOSPC: a temporary folder of the sandbox's own is full, or user namespaces are used up on purpose."""
    if complaint.operation == "namespace":
        return _operation(case, complaint, "namespace")
    for path in map(case.resolve, complaint.paths):
        if case.sight.at(path) == "private":
            return _Finding("high", _tmp_full(case, complaint))
    if any(case.sight.at(path) == "private" for path in map(case.resolve, paths_in(case.script))):
        return _Finding("medium", _tmp_full(case, complaint))
    return None


def _tmp_full(case: _Case, complaint: Complaint) -> Evidence:
    return _seen("tmp_full", f"{case.ending.permissions.tmp_bytes} bytes", complaint)


def _no_network(case: _Case, complaint: Complaint) -> _Finding | None:
    """Names and addresses that cannot be reached where nothing can, on a host that could."""
    mode = case.ending.permissions.network.mode
    is_made_up = _NO_NAME.search(complaint.line) or _NO_NAME.search(case.script)
    if mode not in ("none", "proxy") or is_made_up:
        return None
    if case.outside.is_online() is False:
        return _Finding("low", _seen("no_network", mode, complaint))
    return _Finding("medium", _seen("no_network", mode, complaint))


def _connection_refused(case: _Case, complaint: Complaint) -> _Finding | None:
    """ECONNREFUSED on the own loopback, where the host's has somebody who listens."""
    if has_other_host(complaint.line):
        return _no_network(case, complaint)
    port = complaint.port or port_in(case.script)
    if case.ending.permissions.network.mode == "host" or port is None or not case.outside.listens(port):
        return None
    confidence: Confidence = "high" if complaint.port else "medium"
    return _Finding(confidence, _seen("host_loopback", f"port {port}", complaint))


_RULES: dict[str, Callable[[_Case, Complaint], _Finding | None]] = {
    "read_only": _read_only,
    "cross_device": _cross_device,
    "busy": _busy,
    "no_space": _no_space,
    "unresolved": _no_network,
    "unreachable": _no_network,
    "refused": _connection_refused,
    "not_permitted": _not_permitted,
    "denied": _denied,
    "missing": _missing,
    "invalid": _invalid,
    "unopened": _unopened,
    "not_implemented": _not_implemented,
}
