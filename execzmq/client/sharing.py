"""Own how a client shares its server: the key pair of the new holder, which only the new file has."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import zmq

from execzmq import connection
from execzmq.client.core import Connection
from execzmq.connection import ConnectionInfo, share_id_of, write_connection_file
from execzmq.errors import Conflict, ConnectionFailed, ExecZMQError, InvalidRequest
from execzmq.protocol.values import share_from_wire, terms_to_wire
from execzmq.types.sharing import ShareInfo, ShareTerms


async def share(link: Connection, terms: ShareTerms, output: Path) -> ShareInfo:
    """Make a share, and write the connection file of its holder.

    Cancelling it leaves a share at most whose file nobody has; it ends by itself.

    Raises:
        Conflict: there is a file of that name. ConnectionFailed: it cannot be written; nothing is shared.
        RequestRejected: the server's own error.
    """
    _check_new(output)
    publickey, secretkey = new_keys()
    made, info = await admit(link, terms, publickey)
    try:
        write_connection_file(output, replace(info, curve_secretkey=secretkey))
    except (ConnectionFailed, OSError) as error:
        with contextlib.suppress(ExecZMQError):
            await link.call("revoke", {"share_id": made.share_id})
        if isinstance(error, ConnectionFailed):
            raise
        raise ConnectionFailed(f"{output} cannot be written: {error.strerror}; nothing is shared") from None
    return made


def new_keys() -> tuple[str, str]:
    """Return a public key and the secret one that belongs to it (Z85)."""
    publickey, secretkey = zmq.curve_keypair()
    return publickey.decode(), secretkey.decode()


async def admit(link: Connection, terms: ShareTerms, publickey: str) -> tuple[ShareInfo, ConnectionInfo]:
    """Make a share for whoever has the secret key to `publickey`; return it, and the way in but for that key.

    Cancelling it leaves a share at most whose holder knows no way in.

    Raises:
        RequestRejected: the server's own error.
    """
    answer = await link.call("share", {"publickey": publickey, **terms_to_wire(terms)})
    made = share_from_wire(answer.content["share"])
    return made, _way_in(answer.content, made)


def _check_new(output: Path) -> None:
    if os.path.lexists(output):
        raise Conflict(f"{output} exists already: choose another name, or remove it", file=str(output))


def _way_in(content: dict[str, Any], made: ShareInfo) -> ConnectionInfo:
    ports = ("shell_port", "control_port", "iopub_port", "stdin_port", "hb_port")
    return ConnectionInfo(
        transport="tcp",
        ip=content["ip"],
        key="",
        host=content["host"],
        hostname=content["hostname"],
        role=made.role,
        curve_serverkey=content["serverkey"],
        curve_publickey=made.publickey,
        **{name: content[name] for name in ports},
    )


def id_of(share: str | os.PathLike[str]) -> str:
    """Return the id of a share, given as that or as its file: a path, or a name that exists or has a dot.

    Raises:
        ConnectionFailed: the file cannot be used. InvalidRequest: it is not that of a share.
    """
    text = os.fspath(share)
    if isinstance(share, str) and not {"/", "."} & set(text) and not os.path.exists(text):
        return text
    info = connection.load(text)
    if not info.curve_publickey:
        raise InvalidRequest(f"{text} is not the file of a share: `execzmq shares` lists the ids")
    return share_id_of(info.curve_publickey)
