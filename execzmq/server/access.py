"""Own who a peer is and what it may ask for, see and follow. Pure: knows no socket, no file and no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from execzmq.errors import InvalidRequest, PermissionRefused
from execzmq.process.table import not_found
from execzmq.protocol.methods import METHODS, reach_of
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import Role, ShareInfo

Way = Literal["ipc", "curve", "plain"]
"""How a peer came in: a Unix socket, tcp with CURVE, tcp without."""

_LONGEST_TOPIC = 160
_WELCOME = range(2 + 16, 80 + 1)
"""Bytes of the topic of a welcome: long enough to be nobody else's."""


@dataclass(slots=True, frozen=True)
class Peer:
    """Who is at the other end of a connection.

    Args:
        user_id: what ZAP answered for the connection; sessions are bound to it.
        role: what it may ask for.
        share: what narrows that; `None` = this is the server's own user.
    """

    user_id: str
    role: Role
    way: Way = "ipc"
    share: ShareInfo | None = None

    @property
    def is_guest(self) -> bool:
        """Tell whether it is held to bounds of its own, since its file may be in anybody's hands."""
        return self.role != "owner"

    def session(self, name: str) -> str:
        """Return under which name a session of this peer's is known: nobody else can ever have the same."""
        return name if self.share is None else f"{self.user_id}/{name}"

    @property
    def sandbox(self) -> SandboxIntent | None:
        """Return the most that its commands may do, `None` where that is as much as the server gives."""
        return None if self.share is None else self.share.sandbox

    def sees(self, process_id: str) -> bool:
        """Tell whether it may watch a process, and as an operator act on it.

        The id alone decides, and nobody else can start one under an operator's: so what was decided once,
        for a subscription, stays right.
        """
        share = self.share
        if self.role == "owner":
            return True
        if share is None:
            return False
        return process_id in share.processes or self._makes(process_id, share)

    def may_subscribe(self, topic: bytes) -> bool:
        """Tell whether it may follow a topic: an allowed one must be a prefix of it."""
        if topic.startswith(b"w."):
            return len(topic) in _WELCOME
        if len(topic) > _LONGEST_TOPIC or not topic.startswith((b"p.", b"s.")):
            return False
        return self.role == "owner" or topic.startswith(b"s.") or self._may_follow(topic)

    def check_method(self, name: str) -> None:
        """Return if its role may ask for a method at all.

        Raises:
            PermissionRefused: it may not.
        """
        if self.role != "owner" and reach_of(self.role, name) == "none":
            least = METHODS[name].role
            message = f"{name} is for the role {least}, and this connection file is an {self.role}'s"
            raise PermissionRefused(f"{message}: ask the server's user for another", role=self.role)

    def check_process(self, name: str, request: Any) -> None:
        """Return if the process that a request names is one that it may see.

        Raises:
            ProcessNotFound: it may not; so says a server of what does not exist.
        """
        process_id = None if self.role == "owner" else getattr(request, "process_id", None)
        if process_id is not None and name not in _STARTS and not self.sees(process_id):
            raise not_found(process_id)

    def check_take_over(self, process_id: str, holder: str | None) -> None:
        """Return if it may take a keyboard from the session that holds it; an operator from its share's own.

        Raises:
            PermissionRefused: it may not.
        """
        if self.role != "owner" and holder is not None and not holder.startswith(self.session("")):
            message = f"the keyboard of {process_id} is held by whoever does not hold this connection file"
            raise PermissionRefused(f"{message}: wait until it is released", role=self.role)

    def _may_follow(self, topic: bytes) -> bool:
        process_id, dot, _ = topic[2:].decode("ascii", "replace").partition(".")
        if dot:
            return self.sees(process_id)
        return self.share is not None and self._makes(process_id, self.share)

    def _makes(self, process_id: str, share: ShareInfo) -> bool:
        return self.role == "operator" and process_id.startswith(share.prefix)


_STARTS = ("start", "explain")

OWNER = Peer("owner", "owner")
"""Whoever comes over a Unix socket."""

PLAIN_OWNER = Peer("network", "owner", "plain")
"""Whoever comes over tcp without CURVE and signs with the server's key."""


def check_started_id(peer: Peer, process_id: str | None, is_reserved: bool) -> None:
    """Return if a peer may start a process of that id, or one without an id of its choice.

    Args:
        is_reserved: it begins with the id of a share.

    Raises:
        InvalidRequest: an operator's must begin with its share's id, and nobody else's may.
    """
    share = peer.share if peer.role == "operator" else None
    if process_id is None:
        return
    if share is not None and not process_id.startswith(share.prefix):
        message = f"the process ids of this connection file begin with {share.prefix}"
        raise InvalidRequest(f"{message}: leave the id out, and give a name", process_id=process_id)
    if share is None and is_reserved:
        message = f"{process_id!r} begins with the id of a share, whose holder would see it: choose another"
        raise InvalidRequest(message, process_id=process_id)
