"""Own who is at the other end of a connection, and in which words each is read and answered.

Knows the shares and the time; no socket and no file.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import zmq

from execzmq.protocol.wire import Codec
from execzmq.server.access import OWNER, PLAIN_OWNER, Peer, Way
from execzmq.server.lines import Lines, connection_of
from execzmq.server.shares import ShareBook

_OWNERS = {OWNER.user_id: OWNER, PLAIN_OWNER.user_id: PLAIN_OWNER}


class Guard:
    """What a server knows of its peers.

    Args:
        key: of the connection file of the server's own user.
        epoch: of this server life.
        book: the shares in force.
        lines: is told of the connections of their holders.
        clock: Unix seconds.
    """

    def __init__(
        self, key: bytes, epoch: str, book: ShareBook, lines: Lines, clock: Callable[[], float] = time.time
    ) -> None:
        self._book = book
        self._lines = lines
        self._clock = clock
        # Over CURVE each frame is authenticated between the two: a signature is neither made nor looked at.
        self._codecs: dict[Way, Codec] = {
            "ipc": Codec(key, epoch),
            "curve": Codec(b"", epoch),
            "plain": Codec(key, epoch, digests=True),
        }

    def peer_of(self, user_id: str | None) -> Peer | None:
        """Return the peer whose connection ZAP let in under this id, `None` where it is nobody (any more)."""
        if user_id is None:
            return None
        owner = _OWNERS.get(user_id)
        if owner is not None:
            return owner
        share = self._book.get(user_id, self._clock())
        return None if share is None else Peer(user_id, share.role, "curve", share)

    def is_current(self, peer: Peer) -> bool:
        """Tell whether a peer that was let in still is."""
        return peer.share is None or self._book.get(peer.user_id, self._clock()) is peer.share

    def heard(self, peer: Peer, frame: zmq.Frame) -> None:
        """Note over which connection the holder of a share speaks, so that it can be cut."""
        if peer.share is not None:
            self._lines.note(peer.user_id, connection_of(frame))

    def codec_of(self, peer: Peer | None) -> Codec:
        """Return what reads a peer's messages and writes the answers; `None` is one whose share has ended."""
        return self._codecs["curve" if peer is None else peer.way]
