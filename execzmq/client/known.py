"""Own the list of the connection files that are here, and what is wrong with them; starts and asks nobody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from execzmq import connection
from execzmq.client.launch import listens
from execzmq.connection import ConnectionInfo
from execzmq.errors import ConnectionFailed
from execzmq.settings import DEFAULT_NAME

_KEEPER = "keeper.sock"
"""Name that the keeper of a server has in the state folder until it ends in order."""


@dataclass(slots=True, frozen=True)
class Known:
    """A connection file that is there.

    Args:
        name: of the server.
        path: of the file.
        info: what it says; `None` where it cannot be used.
        is_alive: somebody listens at its address; always so where that is not on this machine.
        problem: why it cannot be used; empty where it can.
    """

    name: str
    path: Path
    info: ConnectionInfo | None
    is_alive: bool
    problem: str = ""


def known() -> list[Known]:
    """Return what connection files there are, one for each server, by name."""
    found: dict[str, Path] = {}
    for path in sorted(connection.jupyter_runtime_folder().glob("execzmq-*.json")):
        found[path.stem.removeprefix("execzmq-")] = path
    for path in sorted(connection.state_folder(DEFAULT_NAME).parent.glob("*/connection.json")):
        found[path.parent.name] = path  # that of this host, where a home is shared
    return [_look_at(name, found[name]) for name in sorted(found)]


def left_alone() -> list[str]:
    """Return the names of the servers of this host that have ended in order and whose commands run on."""
    root = connection.state_folder(DEFAULT_NAME).parent
    names = (path.parent.name for path in root.glob(f"*/{_KEEPER}"))
    return sorted(name for name in names if not connection_file(name).exists())


def connection_file(name: str) -> Path:
    """Return where a server of this host has its own connection file."""
    return connection.state_folder(name) / "connection.json"


def _look_at(name: str, path: Path) -> Known:
    try:
        info = connection.load(path)
    except ConnectionFailed as error:
        return Known(name, path, None, False, str(error))
    return Known(name, path, info, listens(info))
