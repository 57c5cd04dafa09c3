"""Shares as tests need them: made without a server, and connection files made with one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import zmq

from execzmq import connection
from execzmq.connection import ConnectionInfo, share_id_of
from execzmq.server.access import Peer
from execzmq.types.backend import ExecBackend
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import Role, ShareInfo, ShareTerms

SANDBOX = SandboxIntent("workspace-write", (), "none", ())


def share(role: Role = "observer", *processes: str, **changes: Any) -> ShareInfo:
    """Return a share with a key of its own, that began at 1,000 and ends at 2,000."""
    publickey = zmq.curve_keypair()[0].decode()
    sandbox = SANDBOX if role == "operator" else None
    made = ShareInfo(share_id_of(publickey), role, processes, 1000.0, 2000.0, sandbox, publickey)
    return replace(made, **changes)


def peer(role: Role = "observer", *processes: str) -> Peer:
    """Return the holder of such a share."""
    made = share(role, *processes)
    return Peer(made.share_id, role, "curve", made)


async def shared(
    backend: ExecBackend, path: Path, role: Role, *processes: str, **terms: Any
) -> ConnectionInfo:
    """Share a server, and return what the file says that is handed out."""
    await backend.share(ShareTerms(role, processes, **terms), path)
    return connection.load(path)
