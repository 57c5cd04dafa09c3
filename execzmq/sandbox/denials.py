"""Own what is told of refusals: each host and port at most once a second, and never more than a few. Pure.

A sandbox that tries thousands of names must not fill its log with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

INTERVAL_SECONDS = 1.0
MOST = 32
"""Hosts that are told of by name within an interval."""
OTHERS = "*"
"""Stands for all the hosts beyond that."""


@dataclass(slots=True, frozen=True)
class Denial:
    """One host that was refused.

    Args:
        host, port: what was asked for; `*` and 0 for many.
        reason: `not listed`, or what its address is: `private`, `loopback`, …
        count: how many requests this tells of.
    """

    host: str
    port: int
    reason: str
    count: int = 1


class Denials:
    """Refusals of one sandbox: which is told at once, and which are told together later."""

    def __init__(self) -> None:
        self._later: dict[tuple[str, int], Denial] = {}

    def note(self, host: str, port: int, reason: str) -> Denial | None:
        """Count a refusal; return it where it is told at once."""
        if (host, port) not in self._later and len(self._later) >= MOST:
            host, port, reason = OTHERS, 0, "many hosts"
        known = self._later.get((host, port))
        if known is None:
            self._later[host, port] = Denial(host, port, reason, 0)
            return Denial(host, port, reason)
        self._later[host, port] = replace(known, reason=reason, count=known.count + 1)
        return None

    def due(self) -> list[Denial]:
        """End the interval; return what came again within it."""
        told = [denial for denial in self._later.values() if denial.count]
        self._later.clear()
        return told
