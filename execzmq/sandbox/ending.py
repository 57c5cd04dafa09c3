"""Own the words for how a sandboxed command ended, and for what is thought of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from execzmq.sandbox.model import Access, Permissions

Confidence = Literal["high", "medium", "low", ""]


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
        is_mixed: stderr was joined to stdout, or both were a terminal.
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
    is_mixed: bool = False

    @property
    def killed_by(self) -> int | None:
        """Return the signal that ended it, also where a shell or bwrap tells it as 128 + n."""
        if self.signal is None and self.exit_code is not None and 128 < self.exit_code <= 192:
            return self.exit_code - 128
        return self.signal
