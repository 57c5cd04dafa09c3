"""Own which shares there are: made, found, ended, and written down. Pure: time is told, files are others'."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, get_args

from execzmq.errors import Conflict, InvalidRequest, LimitExceeded, ShareNotFound
from execzmq.sandbox.profiles import WORKSPACE_WRITE
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import DAY, Role, ShareInfo, ShareTerms

MOST_SHARES = 1024
MOST_PROCESSES = 256
LONGEST = 366 * DAY
DEFAULT_PROFILE = WORKSPACE_WRITE
"""What commands of an operator get at most where its share names no profile."""

_KEY = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}\Z")
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class ShareBook:
    """The shares of one server."""

    def __init__(self) -> None:
        self._shares: dict[str, ShareInfo] = {}

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[ShareInfo]:
        return iter(sorted(self._shares.values(), key=lambda one: one.created_at))

    def get(self, share_id: str, now: float) -> ShareInfo | None:
        """Return a share that is in force."""
        share = self._shares.get(share_id)
        return share if share is not None and now < share.expires_at else None

    def restore(self, shares: Iterable[ShareInfo]) -> None:
        """Take in what was written down."""
        self._shares = {one.share_id: one for one in shares}

    def add(self, share: ShareInfo) -> None:
        """Take a share in.

        Raises:
            Conflict: its key has one. LimitExceeded: there are too many.
        """
        if share.share_id in self._shares:
            raise Conflict("this key has a share already: make another pair", share_id=share.share_id)
        if len(self) >= MOST_SHARES:
            message = f"there are {MOST_SHARES} shares, which is the most: revoke some"
            raise LimitExceeded(message, limit=MOST_SHARES, value=MOST_SHARES)
        self._shares[share.share_id] = share

    def remove(self, share_id: str) -> ShareInfo:
        """Take a share back, and return it.

        Raises:
            ShareNotFound: there is none of that id.
        """
        share = self._shares.pop(share_id, None)
        if share is None:
            message = f"there is no share {share_id[:64]!r}; `execzmq shares` lists those in force"
            raise ShareNotFound(message, share_id=share_id[:64])
        return share

    def expire(self, now: float) -> list[ShareInfo]:
        """Take those back whose time is over, and return them."""
        over = [share for share in self._shares.values() if share.expires_at <= now]
        for share in over:
            del self._shares[share.share_id]
        return over

    def next_end(self) -> float | None:
        """Return when the next one ends."""
        return min((share.expires_at for share in self._shares.values()), default=None)

    def reserves(self, process_id: str) -> bool:
        """Tell whether an id begins as those of a share do."""
        share_id, dash, _ = process_id.partition("-")
        return bool(dash) and share_id in self._shares

    def is_observed(self, process_id: str) -> bool:
        """Tell whether an observer may watch a process."""
        return any(one.role == "observer" and process_id in one.processes for one in self._shares.values())


def checked_terms(terms: ShareTerms) -> ShareTerms:
    """Return terms in which everything is said.

    Raises:
        InvalidRequest: they contradict each other, or a value is out of range.
    """
    if not 0 < terms.expires <= LONGEST:
        raise _wrong("expires", f"a share ends after more than 0 s, and at most {LONGEST / DAY:.0f} days")
    if len(terms.processes) > MOST_PROCESSES:
        raise _wrong("processes", f"a share names at most {MOST_PROCESSES} processes")
    if terms.role == "owner" and terms.processes:
        raise _wrong("processes", "an owner sees every process: leave them out")
    if terms.role == "observer" and not terms.processes:
        raise _wrong("processes", "an observer sees nothing but what it is given: name a process")
    if terms.role != "operator" and terms.sandbox is not None:
        raise _wrong("sandbox", f"an {terms.role} has none: leave profile, roots, network and hosts out")
    return replace(terms, sandbox=_sandbox(terms.sandbox) if terms.role == "operator" else None)


def _sandbox(wish: SandboxIntent | None) -> SandboxIntent:
    wish = SandboxIntent("") if wish is None else wish
    network = wish.network or ("none" if wish.allowed_hosts is None else "proxy")
    if wish.allowed_hosts is not None and network != "proxy":
        raise _wrong("allowed_hosts", f"allowed hosts need the network proxy, not {network}")
    return replace(
        wish, profile=wish.profile or DEFAULT_PROFILE, network=network, allowed_hosts=wish.allowed_hosts or ()
    )


def checked_key(publickey: str) -> str:
    """Return a public key if it may be one.

    Raises:
        InvalidRequest: it is not 40 characters of Z85.
    """
    if not _KEY.match(publickey):
        raise _wrong("publickey", "a public key has 40 characters of Z85")
    return publickey


def _wrong(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"share: {message}", fields={field: message})


def to_record(share: ShareInfo) -> dict[str, Any]:
    """Return a share as the file takes it; bytes become text that names every byte."""
    record = asdict(share)
    if share.sandbox is not None:
        record["sandbox"]["workspace_roots"] = [os.fsdecode(root) for root in share.sandbox.workspace_roots]
    return record


def from_record(record: dict[str, Any]) -> ShareInfo:
    """Return the share that `to_record` described.

    Raises:
        ValueError, TypeError, KeyError: it describes none: nothing in it is guessed at.
    """
    role, sandbox = record["role"], record["sandbox"]
    processes = tuple(record["processes"])
    if role not in get_args(Role) or not all(map(_WORD.match, processes)):
        raise ValueError("it has no role, or its processes are none")
    if (role == "operator") != (sandbox is not None) or not _KEY.match(record["publickey"]):
        raise ValueError("its sandbox or its key is none")
    return ShareInfo(
        share_id=str(record["share_id"]),
        role=role,
        processes=processes,
        created_at=float(record["created_at"]),
        expires_at=float(record["expires_at"]),
        sandbox=None if sandbox is None else _intent(sandbox),
        publickey=record["publickey"],
    )


def _intent(record: dict[str, Any]) -> SandboxIntent:
    return SandboxIntent(
        record["profile"],
        tuple(os.fsencode(root) for root in record["workspace_roots"]),
        record["network"],
        tuple(record["allowed_hosts"]),
    )
