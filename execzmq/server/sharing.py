"""Own the shares of a living server: who is let in over the network, until when, and what is cut at the end.

Keeps together what must agree: the book of shares, the file, the keys that ZAP lets in, the endpoints on tcp,
the connections that are cut, and the record of who did what.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from execzmq.connection import ConnectionInfo, share_id_of
from execzmq.errors import ConnectionFailed, InvalidState
from execzmq.server.access import Peer
from execzmq.server.audit import AuditLog, Recorder
from execzmq.server.lines import Lines
from execzmq.server.listening import Listening
from execzmq.server.network import CHANNELS, Network, address_here, checked_address, reachable
from execzmq.server.share_store import ShareStore, Stored, new_pair
from execzmq.server.shares import ShareBook, checked_key
from execzmq.server.sockets import Sockets
from execzmq.settings import Settings
from execzmq.types.sharing import ShareInfo, ShareTerms

log = logging.getLogger("execzmq.server")

SERVER = "server"
"""Who does what nobody asks for, in the record."""


class Sharing:
    """The shares of one server.

    Args:
        folder: of the state.
        settings: say whether tcp is wanted without a share, and where.
        on_end: called with the user id of a share that has ended.
        clock: Unix seconds.

    Raises:
        InvalidRequest: the address of the settings is none.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        sockets: Sockets,
        on_end: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.audit = AuditLog(folder, clock)
        self.recorder = Recorder(self.audit)
        self.book = ShareBook()
        self.lines = Lines()
        self._settings = settings
        self._ip = checked_address(settings.ip) if settings.ip else ""
        self._clock = clock
        self._on_end = on_end
        self._admission = sockets.admission
        self._store = ShareStore(folder)
        self._stored: Stored | None = None
        self._said = ""
        self._listening = Listening(sockets, self._bound)

    @property
    def network(self) -> Network | None:
        """Return where the server listens on tcp, `None` where it does not."""
        return self._listening.network if self._listening.is_open else None

    def plain_file(self, local: ConnectionInfo) -> ConnectionInfo | None:
        """Return what leads to the server by tcp without CURVE, from its own file; `None` = nothing does."""
        network = self.network
        if network is None or network.secretkey:
            return None
        ports: dict[str, Any] = {f"{channel}_port": network.port(channel) for channel in CHANNELS}
        return replace(local, transport="tcp", ip=reachable(network.ip), epoch="", pid=0, **ports)

    def open(self) -> None:
        """Take up the shares of earlier lives of this server, and listen where that is wanted.

        Raises:
            ConnectionFailed: it was told to listen on tcp, and cannot.
            InvalidState: it shall do so without CURVE, and has shares.
        """
        loaded = self._store.load()
        if loaded is not None:
            self._stored, shares = loaded
            self.book.restore(shares)
            self._expire()
        if self._settings.insecure and len(self.book):
            message = "there are shares, which need CURVE: revoke them, or leave --insecure out"
            raise InvalidState(message, count=len(self.book))
        if self._settings.insecure:
            log.warning("no CURVE on tcp: whoever reaches the port can read all output")
        self._admission.allow([*self.book])
        if self._settings.transport == "tcp":
            self._listen(len(self.book))
        elif len(self.book):
            self._listening.look(self._wanted_network(len(self.book)))

    def close(self) -> None:
        """Listen no more; the shares stay. Idempotent."""
        self._listening.close()

    def create(self, terms: ShareTerms, publickey: str, peer: Peer) -> tuple[ShareInfo, Network, str]:
        """Let the holder of a key in; return the share, where the server listens, and its public key.

        Raises:
            InvalidRequest: the key is none. Conflict, LimitExceeded: as by `ShareBook.add`.
            InvalidState: the server listens without CURVE, or the share cannot be written down.
            ConnectionFailed: it cannot listen on tcp.
        """
        if self._settings.insecure:
            raise InvalidState("this server listens without CURVE: serve it without --insecure to share it")
        share = self._share_of(terms, checked_key(publickey))
        self.book.add(share)
        try:
            self._admission.allow([*self.book])
            if not self._listening.is_open:
                self._listen(len(self.book) - 1)
            stored = self._save()
        except BaseException:
            self.book.remove(share.share_id)
            self._admission.allow([*self.book])
            raise
        self.audit.note(
            peer.user_id,
            "share",
            share_id=share.share_id,
            role=share.role,
            processes=share.processes,
            expires_at=share.expires_at,
        )
        assert self.network is not None
        return share, self.network, stored.publickey

    def revoke(self, share_id: str, peer: Peer) -> None:
        """Take a share back: its holder is refused from now on, and its connections are cut.

        Raises:
            ShareNotFound: there is none of that id.
            InvalidState: that cannot be written down; it is taken back until the server starts anew.
        """
        share = self.book.remove(share_id)
        self._end(share)
        self.audit.note(peer.user_id, "revoke", share_id=share_id)
        self._save()

    def look(self) -> None:
        """Do what the time asks for: end shares, listen again, forget connections that are gone."""
        if self._expire():
            self._save_if_possible()
        self.lines.sweep()
        wants = self._settings.transport == "tcp" or len(self.book)
        self._listening.look(self._wanted_network(len(self.book)) if wants else None)
        if self._stored is not None and not self._store.is_there():
            self._save_if_possible()

    def seconds_to_next_end(self) -> float | None:
        """Return in how many seconds the next share ends."""
        end = self.book.next_end()
        return None if end is None else max(0.0, end - self._clock())

    def _share_of(self, terms: ShareTerms, publickey: str) -> ShareInfo:
        now = self._clock()
        return ShareInfo(
            share_id=share_id_of(publickey),
            role=terms.role,
            processes=tuple(dict.fromkeys(terms.processes)),
            created_at=now,
            expires_at=now + terms.expires,
            sandbox=terms.sandbox,
            publickey=publickey,
        )

    def _expire(self) -> list[ShareInfo]:
        over = self.book.expire(self._clock())
        for share in over:
            self._end(share)
            self.audit.note(SERVER, "expire", share_id=share.share_id)
        return over

    def _end(self, share: ShareInfo) -> None:
        self._admission.allow([*self.book])
        try:
            self.lines.cut(share.share_id)
            self.lines.cut_unknown(self.network.ports if self.network is not None else ())
        except OSError as error:  # no descriptor to do it with: so all are cut, and those allowed come back
            log.error("a share has ended, and with it all connections on tcp: %s", error)
            self._listening.close()
        self._on_end(share.share_id)

    def _listen(self, holders: int) -> None:
        """Listen where the files of the shares say; where there is none, at other ports if need be.

        Raises:
            ConnectionFailed: it cannot.
        """
        wanted = self._wanted_network(holders)
        try:
            self._listening.open(wanted)
        except ConnectionFailed:
            if holders or not any(wanted.ports):
                raise
            self._listening.open(Network(wanted.ip, secretkey=wanted.secretkey))

    def _wanted_network(self, holders: int) -> Network:
        """Return where to listen: as told, else as the files of shares say, else at this host's address."""
        if self._stored is None:
            self._stored = new_pair()
        stored = self._stored
        network = replace(stored.network(), ip=self._ip or (holders and stored.ip) or address_here())
        return replace(network, secretkey="") if self._settings.insecure else network

    def _bound(self, network: Network) -> None:
        assert self._stored is not None
        before = self._stored
        self._stored = replace(before, ip=network.ip, ports=network.ports)
        if self._stored != before:
            self._save_if_possible()

    def _save(self) -> Stored:
        assert self._stored is not None
        try:
            self._store.save(self._stored, [*self.book])
        except (OSError, ConnectionFailed) as error:
            raise InvalidState(f"the shares cannot be written down, for the next server: {error}") from None
        return self._stored

    def _save_if_possible(self) -> None:
        try:
            self._save()
        except InvalidState as error:
            if str(error) != self._said:
                log.error("%s", error)
            self._said = str(error)
        else:
            self._said = ""
