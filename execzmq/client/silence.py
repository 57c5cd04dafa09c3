"""Own what is said of a server that does not answer: what is known of a request, and what helps.

Asks nobody and looks at no socket.
"""

from __future__ import annotations

from execzmq.client.requester import PendingCall
from execzmq.connection import ConnectionInfo, host_id
from execzmq.errors import AuthenticationFailed, ConnectionFailed, RequestTimeout, ServerLost
from execzmq.protocol.methods import METHODS
from execzmq.settings import SERVER_GONE

UNASKED = "nothing was asked of it"
REFUSED = "the server refuses this client: its share was revoked or has ended, or its file is out of date"


def lost_with(call: PendingCall, reason: str) -> ServerLost:
    """Return the error of a request that waited for a server that is gone; `reason` as for `lost`."""
    if not call.payload.is_sent:
        return lost(UNASKED, reason)
    is_safe = METHODS[call.method].idempotent
    return lost("" if is_safe else f"whether {call.method} was done is not known", reason)


def lost(what: str = "", reason: str = "") -> ServerLost:
    """Return the error of who hears nothing more.

    Args:
        what: what became of its request, if it had any.
        reason: why the way to the server is broken, if that is known.
    """
    return ServerLost(
        f"no server has answered for {SERVER_GONE:g} s{f' ({reason})' if reason else ''};"
        f" {what}{'; ' if what else ''}"
        "its commands go on, and the next server of its name takes them over"
    )


def stuck(info: ConnectionInfo, seconds: float) -> RequestTimeout:
    """Return the error of a server whose sockets are there and in which nothing moves."""
    return RequestTimeout(
        f"the server at {info.endpoint('shell')} has not moved for {seconds:g} s: {stopped(info)}"
    )


def stopped(info: ConnectionInfo) -> str:
    """Say what may be with a server whose heart does not beat, and what helps where it is on this machine."""
    if info.transport != "ipc" or info.host != host_id() or info.pid < 1:
        return "it may be stopped"
    return (
        f"it may be stopped; `kill -CONT {info.pid}` lets it go on,"
        " `execzmq serve --replace --detach` (with its --name) puts another one in its place"
    )


def nobody(info: ConnectionInfo, seconds: float) -> ConnectionFailed:
    """Return the error of a server that a new client has not met."""
    message = f"nobody answers at {info.endpoint('shell')} within {seconds:g} s"
    if info.transport == "tcp":
        message += ": the server or its last share may have ended, or a firewall may stand between"
    return ConnectionFailed(message)


def unanswered(seconds: float) -> AuthenticationFailed:
    """Return the error of a server that lives and does not answer a new client."""
    return AuthenticationFailed(
        f"the server's heart beats, but it has not answered for {seconds:g} s: most likely the key of"
        " the connection file is not its key, or else it is very busy"
    )
