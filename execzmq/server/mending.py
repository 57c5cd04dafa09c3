"""Own the look, once a second, after what others can take away from a living server: folders, files, sockets.

What is gone is made anew. Where another server has the place by now, it is left alone, and this one goes on
for the clients that it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import zmq

from execzmq.connection import ConnectionInfo
from execzmq.errors import Conflict, ConnectionFailed
from execzmq.server.sockets import Sockets
from execzmq.server.state import StateFolder

log = logging.getLogger("execzmq.server")


class Mender:
    """Looks after the files of one server.

    Args:
        info: what its connection files say.
        on_emptied: called after the state folder was emptied or made anew.
        mend_journal: writes the journal anew where it is not whole any more; returns whether it did.
    """

    def __init__(
        self,
        state: StateFolder,
        sockets: Sockets,
        info: ConnectionInfo,
        on_emptied: Callable[[], object],
        mend_journal: Callable[[], bool],
    ) -> None:
        self._state = state
        self._sockets = sockets
        self._info = info
        self._on_emptied = on_emptied
        self._mend_journal = mend_journal
        self._is_lost = False
        self._said = ""

    def look(self) -> None:
        """Mend what can be mended; the log tells what was done, and once what could not be."""
        if self._is_lost:
            return
        try:
            self._mend()
        except Conflict as error:
            self._is_lost = True
            log.error("the folders of this server are gone, and %s: it goes on for those it has", error)
        except (ConnectionFailed, OSError, zmq.ZMQError) as error:
            self._say(f"what was removed cannot be made anew: {error}")
        else:
            self._said = ""

    def _mend(self) -> None:
        if self._state.make_again(self._info.key):
            log.warning("the state folder %s was emptied: it is made anew", self._state.path)
            self._on_emptied()
        elif self._mend_journal():
            log.warning("the journal in %s was removed or cut: it is written anew", self._state.path)
        for lost in self._sockets.bind_lost():
            log.warning("the socket %s was removed: it is bound anew", lost)
        for spoilt in self._state.announce_again(self._info):
            log.warning("the connection file %s was removed or spoilt: it is written anew", spoilt)

    def _say(self, text: str) -> None:
        if text != self._said:
            log.error("%s", text)
            self._said = text
