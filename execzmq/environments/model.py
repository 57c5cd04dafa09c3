"""Own what an environment is: a name for a place where commands run, and the kinds of places; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from execzmq.settings import DEFAULT_NAME

LOCAL = "local"
"""Name of the environment that is the Python that asks."""


@dataclass(slots=True, frozen=True)
class InPython:
    """The Python that asks: no server, and what runs ends with its client."""


@dataclass(slots=True, frozen=True)
class OwnServer:
    """A server of this user's on this machine, started where it does not run.

    Args:
        name: the server's.
    """

    name: str


@dataclass(slots=True, frozen=True)
class ConnectionFile:
    """Whatever server a connection file leads to.

    Args:
        path: of the file.
    """

    path: str


@dataclass(slots=True, frozen=True)
class Ssh:
    """A server on a machine that ssh reaches, started there where it does not run.

    Args:
        destination: `HOST` or `USER@HOST`, as for ssh; its own configuration applies.
        port: of the ssh server; `None` = as ssh is configured.
        command: how execzmq is called there, a line for that machine's `sh`.
        name: the server's, there.
    """

    destination: str
    port: int | None = None
    command: str = "execzmq"
    name: str = DEFAULT_NAME


@dataclass(slots=True, frozen=True)
class Dask:
    """A Dask cluster.

    Args:
        address: of its scheduler.
    """

    address: str


Place: TypeAlias = InPython | OwnServer | ConnectionFile | Ssh | Dask

_KINDS = {InPython: "local", OwnServer: "server", ConnectionFile: "file", Ssh: "ssh", Dask: "dask"}


@dataclass(slots=True, frozen=True)
class Environment:
    """A place and its name.

    Args:
        file: in which it is written; empty where it is built in.
    """

    name: str
    place: Place
    file: str = ""

    @property
    def kind(self) -> str:
        """Return the key that makes such an environment in a file."""
        return _KINDS[type(self.place)]

    @property
    def where(self) -> str:
        """Say in a word or two where that is."""
        place = self.place
        if isinstance(place, Ssh):
            return f"{place.destination}{f':{place.port}' if place.port else ''} ({place.name})"
        if isinstance(place, OwnServer):
            return place.name
        if isinstance(place, ConnectionFile):
            return place.path
        return place.address if isinstance(place, Dask) else "this Python"


BUILT_IN = {
    DEFAULT_NAME: Environment(DEFAULT_NAME, OwnServer(DEFAULT_NAME)),
    LOCAL: Environment(LOCAL, InPython()),
}
"""The environments that are always there, and that no file can redefine."""
