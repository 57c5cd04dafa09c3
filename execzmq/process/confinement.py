"""Own what a process must know of the sandbox around its command; knows nothing of how one is made."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from execzmq.types.results import Cause


class Leader(NamedTuple):
    """The process that leads the command's group inside: `pidfd` is -1 where it is gone."""

    pidfd: int
    pid: int


class Verdict(NamedTuple):
    """Why a confined command ended as it did; `cause` is `None` where the sandbox had no part in it."""

    cause: Cause | None = None
    confidence: str = ""
    evidence: tuple[str, ...] = ()


class Confinement(Protocol):
    """The sandbox of one command, seen from its process."""

    @property
    def leader(self) -> Leader:
        """Return who leads the command's group: the wrapper around the sandbox is in another one."""

    @property
    def wrappers(self) -> frozenset[int]:
        """Return the process ids of who is not the command's: asked to end they would take it with them."""

    def descriptors(self) -> dict[str, int]:
        """Return by name what a keeper must hold for the next server; they stay the sandbox's."""
