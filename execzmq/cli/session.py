"""Own how a command reaches its server, finds its process and is run; the only place that opens a backend."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from execzmq.cli import absent, say
from execzmq.environments.model import ConnectionFile, Dask, InPython, OwnServer, Place, Ssh
from execzmq.errors import ConnectionFailed, InvalidRequest, ProcessNotFound, ServerLost
from execzmq.settings import DEFAULT_NAME

if TYPE_CHECKING:
    from execzmq.client.remote import RemoteBackend
    from execzmq.cluster.backend import ClusterBackend
    from execzmq.connection import ConnectionInfo
    from execzmq.types.backend import ExecBackend, ExecProcess

    Served = RemoteBackend | ClusterBackend


def go(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its end and return the exit status; tell of what went wrong."""
    try:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(_tell)
            return runner.run(work)
    except KeyboardInterrupt:
        return say.INTERRUPTED
    except Exception as error:
        return say.failure(error)


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell of a fault in a callback or task that nobody waits for, without its traceback."""
    error = context.get("exception")
    say.line(say.text_of(error) if isinstance(error, BaseException) else str(context.get("message")))


@contextlib.asynccontextmanager
async def connected(on: str | None, *, start: bool = False) -> AsyncIterator[Served]:
    """Open a backend and close it at the end.

    Args:
        on: name of an environment or a server, or path of a connection file; `None` = the user's default
            server.
        start: start an environment's server where it does not run.

    Raises:
        ConnectionFailed: none runs, or it does not answer.
        AuthenticationFailed, VersionMismatch, RequestTimeout: of another machine.
        ServerLost: it has gone meanwhile; says what to do next, unless the server was to be started.
        InvalidRequest: a file of environments is wrong, or the environment is not for the command line.
    """
    backend = await _open(on, start=start)
    try:
        with _warnings_said():
            yield backend
    except ServerLost as error:
        if start or isinstance(place_of(on), Dask):
            raise  # to do the same again would start the command again, or needs no server to be started
        step = f"start a server by {_starters(on)}, then do the same again"
        raise ServerLost(f"{error.message}; {step}") from None
    finally:
        await backend.aclose()


@contextlib.contextmanager
def _warnings_said() -> Iterator[None]:
    """Say on a line of ours what is left out of an answer, as the hosts of a cluster that are away."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say.line(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show
        yield


async def _open(on: str | None, *, start: bool) -> Served:
    from execzmq.client.remote import RemoteBackend

    place = place_of(on)
    if isinstance(place, Ssh):
        from execzmq.environments.opening import open_ssh

        return await open_ssh(str(on), place, start=start)
    if isinstance(place, Dask):
        from execzmq.environments.opening import open_dask

        return await open_dask(str(on), place, start=start)
    try:
        return await RemoteBackend.open(await locate(on, start=start))
    except ConnectionFailed:
        if not start or not isinstance(place, OwnServer):
            raise
    # It may just have ended for want of work.
    return await RemoteBackend.open(await locate(on, start=True))


def place_of(on: str | None) -> Place:
    """Return where `--on` leads; the errors are those of `connected`."""
    if _is_default(on):
        return OwnServer(DEFAULT_NAME)
    assert on is not None
    from execzmq.client.known import left_alone
    from execzmq.environments import store

    try:
        place = store.environment_of(on).place
    except ConnectionFailed as error:
        told = absent.left_alone(on) if on in left_alone() else error.message
        raise ConnectionFailed(told) from None
    if isinstance(place, InPython):
        words = "is inside a Python program (`execzmq.local()`): leave --on out, or name a server"
        raise InvalidRequest(f"environment {on} {words}")
    return place


async def locate(on: str | None, *, start: bool = False) -> ConnectionInfo:
    """Return how to reach a server of this machine, or of a connection file; see `connected`."""
    from execzmq import connection
    from execzmq.client import launch

    place = place_of(on)
    if isinstance(place, OwnServer):
        info = await launch.ensure_server(place.name) if start else launch.running(place.name)
        if info is None:
            raise ConnectionFailed(_not_running(on, place.name))
        return info
    assert isinstance(place, ConnectionFile)
    path, info = place.path, connection.load(place.path)
    if not launch.listens(info):
        raise ConnectionFailed(
            f"the server of {path} has died; what it runs goes on,"
            " and `execzmq serve --name NAME` takes that over"
        )
    return info


def _not_running(on: str | None, name: str) -> str:
    """Say that a server does not run, and what of one that has died or left its commands."""
    from execzmq import connection
    from execzmq.client.known import left_alone

    info: ConnectionInfo | None
    try:
        info = connection.load(connection.state_folder(name) / "connection.json")
    except ConnectionFailed:
        info = None
    if info is None and name in left_alone():
        return absent.left_alone(name)
    if info is None or info.host != connection.host_id():
        return f"no {name} server runs; `execzmq run` or `execzmq start` starts one"
    return (
        f"the {name} server (pid {info.pid}) has died; what it runs goes on,"
        f" and {_run_on(on)} starts a server that takes that over"
    )


def _starters(on: str | None) -> str:
    """Return the commands that start a server where the one before was, which takes over what it has left."""
    from execzmq.environments.store import find_environment

    is_named = not _is_default(on) and on is not None and "/" not in on and find_environment(on) is not None
    return _run_on(on) if is_named else absent.starters(on)


def _run_on(on: str | None) -> str:
    return "`execzmq run -- true`" if _is_default(on) else f"`execzmq run --on {on} -- true`"


def _is_default(on: str | None) -> bool:
    return on in (None, DEFAULT_NAME)


async def find(backend: ExecBackend, text: str) -> ExecProcess:
    """Return the process with an id or name, or with the only id that begins like that.

    Raises:
        ProcessNotFound: there is none. InvalidRequest: several ids begin like that.
    """
    try:
        return await backend.attach(text)
    except (ProcessNotFound, InvalidRequest):
        ids = [p.process_id for p in await backend.list_processes() if text and p.process_id.startswith(text)]
    if len(ids) == 1:
        return await backend.attach(ids[0])
    if ids:
        raise InvalidRequest(
            f"{text!r} may be {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}: write more of it"
        )
    raise ProcessNotFound(f"no process {text!r}; `execzmq ps --all` lists them")
