"""Own the answer to ZeroMQ's question whether a connection may come in, and under which name.

Who speaks is decided by the transport alone. Over ipc the kernel names the user at the other end of the
socket (SO_PEERCRED; libzmq passes `:uid:gid:pid` as the address to its ZAP handler, RFC 27); only the
server's own user comes in, as owner. Over tcp it is the CURVE key of a share. Knows nothing of roles.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from types import MappingProxyType

import zmq
from zmq.utils import z85

from execzmq.server.access import OWNER, PLAIN_OWNER
from execzmq.types.sharing import ShareInfo

IPC_DOMAIN = "ipc"
TCP_DOMAIN = "tcp"
PLAIN_DOMAIN = "tcp-plain"
"""Of an endpoint on tcp without CURVE, which is bound only where the user has asked for that."""
_ENDPOINT = "inproc://zeromq.zap.01"
_KEY = 6
"""Where the key of a CURVE client stands in a request."""


def judge(request: list[bytes], uid: int, keys: Mapping[bytes, str]) -> list[bytes]:
    """Return the reply to one ZAP request (version, id, domain, address, identity, mechanism, ...). Pure.

    Args:
        uid: of the server's user.
        keys: user id by public key, of those that come in by tcp.
    """
    if len(request) < 6 or request[0] != b"1.0":
        return []
    name = _name_of(request, uid, keys)
    if name is None:
        # A client that gets 400 does not try again by itself.
        return [b"1.0", request[1], b"400", b"this server does not know you", b"", b""]
    return [b"1.0", request[1], b"200", b"OK", name.encode(), b""]


def _name_of(request: list[bytes], uid: int, keys: Mapping[bytes, str]) -> str | None:
    domain, address, mechanism = request[2], request[3], request[5]
    if domain == IPC_DOMAIN.encode() and mechanism == b"NULL":
        return OWNER.user_id if _uid_of(address) == uid else None
    if domain == TCP_DOMAIN.encode() and mechanism == b"CURVE" and len(request) > _KEY:
        return keys.get(request[_KEY])
    if domain == PLAIN_DOMAIN.encode() and mechanism == b"NULL":
        return PLAIN_OWNER.user_id
    return None


def _uid_of(address: bytes) -> int | None:
    _, _, credentials = address.partition(b":")
    uid, _, _ = credentials.partition(b":")
    return int(uid) if uid.isdigit() else None


class Admission:
    """The keys that come in by tcp; read by the threads of the gatekeepers, set as a whole."""

    def __init__(self) -> None:
        self.keys: Mapping[bytes, str] = MappingProxyType({})

    def allow(self, shares: Collection[ShareInfo]) -> None:
        """Let in these shares, and no others."""
        self.keys = MappingProxyType({z85.decode(one.publickey): one.share_id for one in shares})


class Gatekeeper:
    """Answers ZAP requests of one context from a thread of its own, so that no work delays a connection."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], admission: Admission) -> None:
        self._admission = admission
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
                    answer = judge(request, uid, self._admission.keys)
                    self._socket.send_multipart(answer or [b"1.0", b"", b"500", b"bad request", b"", b""])
                except zmq.ContextTerminated:
                    return
