"""Own how the address of a scheduler becomes a backend, which has a Dask client of its own."""

from __future__ import annotations

from typing import Any

from distributed import Client

from execzmq.cluster.backend import ClusterBackend
from execzmq.cluster.dask import Dask
from execzmq.errors import ConnectionFailed

_SECONDS = 5
"""Seconds in which a scheduler must answer."""


async def open_cluster(address: str, *, start: bool = True) -> ClusterBackend:
    """Connect to a cluster; certificates for `tls://` are those of Dask's own configuration.

    Args:
        address: of its scheduler.
        start: have a server on each of its hosts, and those to come.

    Raises:
        ConnectionFailed: no scheduler answers there, or a host cannot start its server.
    """
    try:
        client = await _client(address)
    except (OSError, ValueError) as error:
        message = f"no scheduler of a Dask cluster answers at {address}: {error}"
        raise ConnectionFailed(message) from None
    try:
        return await ClusterBackend.open(Dask(client), start=start, on_close=client.close)
    except BaseException:
        await client.close()
        raise


def _client(address: str) -> Any:
    return Client(address, asynchronous=True, timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]  # as it is there
