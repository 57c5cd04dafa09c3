"""Own how an environment becomes a backend; loads what its kind needs, and that alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from execzmq import connection
from execzmq.client import launch
from execzmq.client.remote import RemoteBackend
from execzmq.environments.model import ConnectionFile, Dask, Environment, InPython, OwnServer, Ssh
from execzmq.errors import ConnectionFailed, ExecZMQError, InvalidRequest, RequestTimeout
from execzmq.types.backend import ExecBackend

if TYPE_CHECKING:
    from execzmq.cluster.backend import ClusterBackend
    from execzmq.environments.tunnel import Tunnel

_MEET_SECONDS = 5.0
"""Seconds in which a server must answer that is reached by a way that was opened just now."""


def check(environment: Environment) -> None:
    """Look at what needs no connection, so that its faults show before there is one.

    Raises:
        ConnectionFailed: a connection file cannot be used. InvalidRequest: this version has no such backend.
    """
    place = environment.place
    if isinstance(place, ConnectionFile):
        connection.load(place.path)
    elif isinstance(place, Dask):
        _cluster_opener(environment.name)


async def open_environment(environment: Environment) -> ExecBackend:
    """Return the backend of an environment; a server of one's own is started where it does not run.

    Cancelling leaves no connection; a server that is being started goes on.

    Raises:
        ConnectionFailed, AuthenticationFailed, VersionMismatch, RequestTimeout: it cannot be reached.
        InvalidRequest: this version has no such backend.
    """
    place = environment.place
    if isinstance(place, InPython):
        from execzmq.backends.local import LocalBackend

        return await LocalBackend.open_private()
    if isinstance(place, OwnServer):
        return await open_own(place.name)
    if isinstance(place, ConnectionFile):
        return await RemoteBackend.open(connection.load(place.path))
    if isinstance(place, Ssh):
        return await open_ssh(environment.name, place)
    return await open_dask(environment.name, place)


async def open_own(name: str) -> RemoteBackend:
    """Connect to a server of this user's on this machine; start it where it does not run."""
    try:
        return await RemoteBackend.open(await launch.ensure_server(name))
    except ConnectionFailed:  # one that was about to end listened still; a fault of another kind shows again
        return await RemoteBackend.open(await launch.ensure_server(name))


async def open_ssh(name: str, ssh: Ssh, *, start: bool = True) -> RemoteBackend:
    """Connect to a server on another machine.

    Args:
        name: of the environment.
        start: start the server where it does not run.

    Raises:
        ConnectionFailed, AuthenticationFailed, VersionMismatch, RequestTimeout: as for `Tunnel.open`, and
            for `RemoteBackend.open`.
    """
    from execzmq.environments.tunnel import Tunnel

    tunnel = await Tunnel.open(name, ssh, start=start)
    try:
        return await _meet(tunnel)
    except (ConnectionFailed, RequestTimeout):  # as in `open_own`
        return await _meet(await Tunnel.open(name, ssh, start=start))


async def _meet(tunnel: Tunnel) -> RemoteBackend:
    """Connect to the server at the end of a way, which is closed where that fails."""
    try:
        return await RemoteBackend.open(tunnel.info, _MEET_SECONDS, tunnel)
    except BaseException as error:
        told = tunnel.explain(error) if isinstance(error, ExecZMQError) else error
        await tunnel.aclose()
        raise told from None


async def open_dask(name: str, dask: Dask, *, start: bool = True) -> ClusterBackend:
    """Connect to a Dask cluster.

    Args:
        name: of the environment.
        start: start the servers of its hosts where they do not run.

    Raises:
        InvalidRequest: the extra for clusters is not installed. ConnectionFailed: as for `open_cluster`.
    """
    return await _cluster_opener(name)(dask.address, start=start)


def _cluster_opener(name: str) -> Callable[..., Awaitable[ClusterBackend]]:
    try:
        from execzmq.cluster.opening import open_cluster
    except ModuleNotFoundError as error:
        needed = "Dask clusters need more than is installed: pip install 'execzmq[cluster]'"
        raise InvalidRequest(f"environment {name}: {needed} ({error.name} is missing)") from None
    return open_cluster
