"""Own what becomes the result of a process: its status, who asked for its end and why. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

from execzmq.process.confinement import Verdict
from execzmq.types.results import Cause, ExitResult


class End(NamedTuple):
    """The end of a command as its parent tells it: status as from wait(2), `None` where nobody knows."""

    status: int | None
    rusage: dict[str, float]
    ended_at: float


@dataclass(slots=True)
class Ending:
    """The facts of an end as they come in.

    Args:
        cause: why the process is being ended; the first who asks counts. `None` while nobody has asked.
        asked_by: who asked.
        signals: by number, who sent it.
        status: as `wait4` tells it; `None` where nobody knows.
        verdict: what part the sandbox had in it.
    """

    started_at: float = 0.0
    ended_at: float = 0.0
    cause: Cause | None = None
    asked_by: str = ""
    signals: dict[int, str] = field(default_factory=dict)
    status: int | None = None
    rusage: dict[str, float] = field(default_factory=dict)
    holders: tuple[tuple[int, str], ...] = ()
    verdict: Verdict = field(default_factory=Verdict)

    def ask(self, cause: Cause, asked_by: str) -> None:
        """Note that somebody wants the process ended."""
        if self.cause is None:
            self.cause, self.asked_by = cause, asked_by

    def take(self, end: End, verdict: Verdict | None) -> None:
        """Note the end of the command."""
        self.status, self.rusage, self.ended_at = end
        self.verdict = verdict or self.verdict

    def resume(self, told: ExitResult) -> None:
        """Go on from what an earlier life has told of the end."""
        self.started_at, self.ended_at = told.started_at, told.ended_at
        self.rusage = told.rusage
        if told.exit_code is not None:
            self.status = told.exit_code << 8
        elif told.signal is not None:
            self.status = told.signal
            self.signals[told.signal] = told.asked_by
        self.verdict = Verdict(None, told.confidence, told.evidence)
        if told.cause not in ("exited", "signaled"):
            self.ask(told.cause, told.asked_by)

    def result(self, output_bytes: dict[str, int], dropped_bytes: dict[str, int]) -> ExitResult:
        """Return the result as far as it is known now."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        cause, asked_by = self._why(code)
        return ExitResult(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            cause=cause,
            asked_by=asked_by,
            started_at=self.started_at,
            ended_at=self.ended_at,
            rusage=self.rusage,
            output_bytes=dict(output_bytes),
            dropped_bytes=dict(dropped_bytes),
            held_open_by=self.holders,
            confidence=self.verdict.confidence,
            evidence=self.verdict.evidence,
        )

    def _why(self, code: int | None) -> tuple[Cause, str]:
        if self.cause is not None:
            return self.cause, self.asked_by
        if code is None:
            return "server_lost", ""
        if self.verdict.cause is not None:
            return self.verdict.cause, ""
        if code < 0:
            return "signaled", self.signals.get(-code, "")
        return "exited", ""
