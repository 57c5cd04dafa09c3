"""Own what a server remembers of its clients: answers for repeated requests, sessions and leases.

Nothing here is told before the message has been verified; that is the caller's order. Memory is bounded by
number, and what nobody asks for any more is forgotten by time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from execzmq.errors import LimitExceeded, PermissionRefused
from execzmq.settings import (
    LEASE,
    REPLIES_PER_SESSION,
    REPLIES_TOTAL,
    REPLY_KEPT,
    SESSION_KEPT,
    SESSIONS,
    STARTER_GONE,
)

A = TypeVar("A")


class Seen(Enum):
    """Whether a request of a changing method has come before."""

    NEW = "new"
    IN_PROGRESS = "in progress"
    ANSWERED = "answered"


class Answers(Generic[A]):
    """Answers of changing methods, so that a repeated request is answered and not done again.

    A request is named by the identity of its peer, its session and its message id. One in progress is
    never forgotten; of the answered ones the oldest are, by age or where room is needed.
    """

    def __init__(
        self, kept: float = REPLY_KEPT, per_session: int = REPLIES_PER_SESSION, total: int = REPLIES_TOTAL
    ) -> None:
        self._kept = kept
        self._per_session = per_session
        self._total = total
        self._in_progress: set[tuple[str, str, str]] = set()
        # A plain dict walks over all that was taken from its front to find the first.
        self._answered: OrderedDict[tuple[str, str, str], tuple[float, A]] = OrderedDict()
        self._of_session: dict[tuple[str, str], OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._in_progress) + len(self._answered)

    def begin(self, identity: str, session: str, msg_id: str, now: float) -> tuple[Seen, A | None]:
        """Tell whether to do a request (`NEW`), to leave it be, or to send the returned answer once more.

        Raises:
            LimitExceeded: too many requests are in progress, in this session or in all.
        """
        self.expire(now)
        key = (identity, session, msg_id)
        if key in self._answered:
            return Seen.ANSWERED, self._answered[key][1]
        if key in self._in_progress:
            return Seen.IN_PROGRESS, None
        self._make_room(identity, session)
        self._in_progress.add(key)
        self._of_session.setdefault((identity, session), OrderedDict())[msg_id] = None
        return Seen.NEW, None

    def finish(self, identity: str, session: str, msg_id: str, answer: A, now: float) -> bool:
        """Keep the answer of a request in progress; return whether it was."""
        key = (identity, session, msg_id)
        if key not in self._in_progress:
            return False
        self._in_progress.remove(key)
        self._answered[key] = (now, answer)
        return True

    def expire(self, now: float) -> None:
        """Forget the answers that are older than they are kept for."""
        while self._answered:
            key = next(iter(self._answered))
            if self._answered[key][0] + self._kept > now:
                return
            self._forget(key)

    def _make_room(self, identity: str, session: str) -> None:
        own = self._of_session.get((identity, session), ())
        if len(own) >= self._per_session:
            self._forget_oldest(((identity, session, msg_id) for msg_id in own), self._per_session)
        if len(self) >= self._total:
            self._forget_oldest(self._answered, self._total)

    def _forget_oldest(self, candidates: Iterable[tuple[str, str, str]], limit: int) -> None:
        for key in candidates:
            if key in self._answered:
                self._forget(key)
                return
        raise LimitExceeded(
            f"{limit} requests are in progress, which is the most; wait for replies first",
            limit=limit,
            value=limit,
        )

    def _forget(self, key: tuple[str, str, str]) -> None:
        self._in_progress.discard(key)
        self._answered.pop(key, None)
        own = self._of_session.get(key[:2])
        if own is not None:
            own.pop(key[2], None)
            if not own:
                del self._of_session[key[:2]]


@dataclass(slots=True)
class _Session:
    """One client session: whose it is, when it last spoke, how long its lease runs."""

    identity: str
    last_word: float
    lease_until: float
    has_lapsed: bool = False


class Sessions:
    """The client sessions of a server.

    A session belongs to the identity (ZAP's User-Id) under which it was first heard. Its first word counts
    as a lease of 30 s, so that a client that dies at once is noticed like any other.
    """

    def __init__(self, lease: float = LEASE, kept: float = SESSION_KEPT, most: int = SESSIONS) -> None:
        self._lease = lease
        self._kept = kept
        self._most = most
        self._sessions: dict[str, _Session] = {}
        self._of_identity: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def hear(self, session: str, identity: str, now: float, most: int | None = None) -> bool:
        """Note that a session has sent something, before the request is looked at any further.

        Args:
            most: sessions that this identity may have; `None` = as many as all together.

        Returns:
            Whether it was not known before.

        Raises:
            PermissionRefused: the session belongs to another identity.
            LimitExceeded: there are too many sessions.
        """
        known = self._sessions.get(session)
        if known is None:
            self._check_room(len(self._sessions), self._most)
            if most is not None:
                self._check_room(self._of_identity[identity], most)
            self._sessions[session] = _Session(identity, now, now + self._lease)
            self._of_identity[identity] += 1
            return True
        if known.identity != identity:
            raise PermissionRefused("this session belongs to another user; a client makes its own random one")
        known.last_word = now
        return False

    def lease(self, session: str, seconds: float, now: float) -> None:
        """Renew the lease of a session that was heard; 0 ends it, more than 30 s are 30 s."""
        known = self._sessions[session]
        known.lease_until = now + min(max(seconds, 0.0), self._lease)
        known.has_lapsed = False

    def is_gone(self, session: str, now: float, after: float = STARTER_GONE) -> bool:
        """Tell whether a session has sent nothing for `after` seconds."""
        known = self._sessions.get(session)
        return known is None or now - known.last_word >= after

    def count_leases(self, now: float) -> int:
        """Return how many leases run."""
        return sum(now < known.lease_until for known in self._sessions.values())

    def expired(self, now: float) -> list[str]:
        """Return the sessions whose lease has run out since the last call; forget those long silent.

        These are returned once more: one may have spoken on without a lease, and what it holds ends with it.
        """
        lapsed = []
        for session, known in list(self._sessions.items()):
            if known.lease_until > now:
                continue
            is_over = max(known.lease_until, known.last_word) + self._kept <= now
            if is_over or not known.has_lapsed:
                lapsed.append(session)
            known.has_lapsed = True
            if is_over:
                self._forget(session, known)
        return lapsed

    def _forget(self, session: str, known: _Session) -> None:
        del self._sessions[session]
        self._of_identity[known.identity] -= 1
        if not self._of_identity[known.identity]:
            del self._of_identity[known.identity]

    def _check_room(self, value: int, most: int) -> None:
        if value >= most:
            raise LimitExceeded(
                f"{most} client sessions are remembered, which is the most; try again in a minute",
                limit=most,
                value=value,
            )
