"""Own who speaks: the answer to ZeroMQ's question whether a connection may come in, and what a peer may see.

Who speaks is decided by the transport alone. Over ipc the kernel names the user at the other end of the
socket (SO_PEERCRED; libzmq passes `:uid:gid:pid` as the address to its ZAP handler, RFC 27); only the
server's own user comes in, as owner.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import zmq

from execzmq.protocol.methods import ROLES, Role

IPC_DOMAIN = "ipc"
_ENDPOINT = "inproc://zeromq.zap.01"
_OWNER = "owner"


@dataclass(slots=True, frozen=True)
class Peer:
    """Who is at the other end of a connection.

    Args:
        user_id: what ZAP answered for the connection; sessions are bound to it.
        role: what it may ask for.
    """

    user_id: str
    role: Role

    def may(self, least: Role) -> bool:
        """Tell whether this peer has at least that role."""
        return ROLES.index(self.role) >= ROLES.index(least)

    def may_subscribe(self, topic: bytes) -> bool:
        """Tell whether this peer may follow a topic: an owner everything that is one."""
        if topic.startswith(b"w."):
            return 18 <= len(topic) <= 80
        return self.role == "owner" and topic.startswith((b"p.", b"s.")) and len(topic) <= 160


_OWNERS_PEER = Peer(_OWNER, "owner")


def peer_of(user_id: str | None) -> Peer | None:
    """Return the peer whose connection ZAP let in under this id, `None` if it let in nobody of that id."""
    return _OWNERS_PEER if user_id == _OWNER else None


def judge(request: list[bytes], uid: int) -> list[bytes]:
    """Return the reply to one ZAP request (version, id, domain, address, identity, mechanism, ...). Pure."""
    if len(request) < 6 or request[0] != b"1.0":
        return []
    domain, address, mechanism = request[2], request[3], request[5]
    if domain == IPC_DOMAIN.encode() and mechanism == b"NULL" and _uid_of(address) == uid:
        return [b"1.0", request[1], b"200", b"OK", _OWNER.encode(), b""]
    return [b"1.0", request[1], b"400", b"not this server's user", b"", b""]


def _uid_of(address: bytes) -> int | None:
    _, _, credentials = address.partition(b":")
    uid, _, _ = credentials.partition(b":")
    return int(uid) if uid.isdigit() else None


class Gatekeeper:
    """Answers ZAP requests of one context from a thread of its own, so that no work delays a connection."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(_ENDPOINT)
        self.thread = threading.Thread(target=self._serve, name="execzmq-zap", daemon=True)

    def start(self) -> None:
        """Begin to answer; the thread ends with the context."""
        self.thread.start()

    def _serve(self) -> None:
        uid = os.getuid()
        with self._socket:
            while True:
                try:
                    request = self._socket.recv_multipart()
                    self._socket.send_multipart(
                        judge(request, uid) or [b"1.0", b"", b"500", b"bad request", b"", b""]
                    )
                except zmq.ContextTerminated:
                    return
