"""Own how a name becomes a client, and the one client that the functions of the package share.

Loads a backend only when it is asked for; knows nothing of what a backend does.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any, Unpack

from execzmq.client import popen
from execzmq.client.aio import AsyncClient
from execzmq.client.arguments import Command, StartOptions
from execzmq.client.plan import RunOptions, SubprocessOptions
from execzmq.client.reaching import Reach
from execzmq.client.run import CompletedProcess
from execzmq.client.signatures import options_from
from execzmq.client.sync import Client, Process
from execzmq.environments.model import LOCAL, Dask, Environment
from execzmq.errors import ConnectionFailed
from execzmq.settings import DEFAULT_NAME


class Connecting:
    """What `aconnect` returns: `await` it for a client, or `async with` it for one that closes itself."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return _made(_environment(self._name)).__await__()

    async def __aenter__(self) -> AsyncClient:
        self._client = await _made(_environment(self._name))
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()


def connect(name: str | None = None) -> Client:
    """Return a client of one's own for a server; close it, or use it in a `with`.

    What is wrong with the name, or with a file that it leads to, shows at once. The connection is made at
    the first use, or by `Client.connect`; `Client.state` tells how it stands.

    Args:
        name: of an environment, which may be on another machine, else of a server of this user's; with a
            `/` in it, the path of a connection file; `None` = the default server. Environments' own servers
            are started where they do not run. That of a Dask cluster gives a `ClusterClient`.

    Raises:
        ConnectionFailed: there is no such environment or server, or a connection file cannot be used.
        InvalidRequest: a file of environments is wrong, or this version has no such kind of them.
    """
    environment = _environment(name)
    return _class_for(environment).open(lambda: _made(environment))


def aconnect(name: str | None = None) -> Connecting:
    """Do as `connect`, for async code: `async with aconnect() as client`, or `await aconnect()`."""
    return Connecting(name)


def local() -> Client:
    """Return a client without a server: this Python runs the commands, closing it ends them."""
    return Client.open(_local)


@options_from(RunOptions)
def run(args: Command, **options: Unpack[RunOptions]) -> CompletedProcess:
    """Run a command on the default server to its end; see `Client.run`."""
    with _Default() as client:
        return client.run(args, **options)


@options_from(StartOptions)
def start(args: Command, **options: Unpack[StartOptions]) -> Process:
    """Start a command on the default server; see `Client.start`."""
    with _Default() as client:
        return client.start(args, **options)


def attach(id_or_name: str) -> Process:
    """Find a process of the default server; see `Client.attach`."""
    with _Default() as client:
        return client.attach(id_or_name)


class Popen(popen.Popen):
    __doc__ = popen.Popen.__doc__

    @options_from(SubprocessOptions)
    def __init__(
        self, args: Command, *, client: Client | None = None, **options: Unpack[SubprocessOptions]
    ) -> None:
        if client is not None:
            super().__init__(args, client=client, **options)
            return
        with _Default() as client:
            super().__init__(args, client=client, **options)


class _Default:
    """The client of this process for the default server, made at first use and after a fork anew.

    So it is where that has no connection: to connect starts a server where none runs, or awaits one.
    """

    _lock = threading.Lock()
    _client: Client | None = None

    def __enter__(self) -> Client:
        with _Default._lock:
            if _Default._client is None or _Default._client.state in ("lost", "closed"):
                _Default._client = connect()
            self._used = _Default._client
        return self._used

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ConnectionFailed):
            with _Default._lock:  # the next use starts the server that is gone
                if _Default._client is self._used:
                    _Default._client = None


def _environment(name: str | None) -> Environment:
    from execzmq.environments import store

    return store.environment_of(DEFAULT_NAME if name is None else os.fspath(name))


async def _made(environment: Environment) -> AsyncClient:
    """Return a client that opens an environment at its first use."""
    from execzmq.environments import opening

    opening.check(environment)
    reach = Reach(partial(opening.open_environment, environment))
    if isinstance(environment.place, Dask):
        from execzmq.cluster.aio import AsyncClusterClient

        return AsyncClusterClient(reach)
    return AsyncClient(reach)


def _class_for(environment: Environment) -> type[Client]:
    """Return what clients of an environment are: those of a cluster can do more."""
    if isinstance(environment.place, Dask):
        with contextlib.suppress(ModuleNotFoundError):  # to make one says what is missing
            from execzmq.cluster.sync import ClusterClient

            return ClusterClient
    return Client


async def _local() -> AsyncClient:
    return await _made(_environment(LOCAL))
