"""Own how a command reaches its server, finds its process and is run; the only place that opens a backend."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

from execzmq.cli import absent, say
from execzmq.errors import ConnectionFailed, InvalidRequest, ProcessNotFound, ServerLost
from execzmq.settings import DEFAULT_NAME

if TYPE_CHECKING:
    from execzmq.client.remote import RemoteBackend
    from execzmq.connection import ConnectionInfo
    from execzmq.types.backend import ExecBackend, ExecProcess


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
async def connected(on: str | None, *, start: bool = False) -> AsyncIterator[RemoteBackend]:
    """Open a backend and close it at the end.

    Args:
        on: name of a server or path of a connection file; `None` = the user's default server.
        start: start the default server where none runs.

    Raises:
        ConnectionFailed: none runs, or it does not answer.
        ServerLost: it has gone meanwhile; says what to do next, unless the server was to be started.
    """
    backend = await _open(on, start=start)
    try:
        yield backend
    except ServerLost as error:
        if start:
            raise  # to do the same again would start the command again
        step = f"start a server by {absent.starters(on)}, then do the same again"
        raise ServerLost(f"{error.message}; {step}") from None
    finally:
        await backend.aclose()


async def _open(on: str | None, *, start: bool) -> RemoteBackend:
    from execzmq.client.remote import RemoteBackend

    try:
        return await RemoteBackend.open(await locate(on, start=start))
    except ConnectionFailed:
        if not start or not _is_default(on):
            raise
    # It may just have ended for want of work.
    return await RemoteBackend.open(await locate(on, start=True))


async def locate(on: str | None, *, start: bool = False) -> ConnectionInfo:
    """Return how to reach a server; see `connected`."""
    from execzmq import connection
    from execzmq.client import launch
    from execzmq.client.known import left_alone

    if _is_default(on):
        info = await launch.ensure_server() if start else launch.running()
        if info is None:
            raise ConnectionFailed(_no_default())
        return info
    assert on is not None
    try:
        path = connection.find(on)
    except ConnectionFailed:
        if on in left_alone():
            raise ConnectionFailed(absent.left_alone(on)) from None
        raise ConnectionFailed(
            f"no server {on!r} here; `execzmq connections` lists those there are"
        ) from None
    info = connection.load(path)
    if not launch.listens(info):
        raise ConnectionFailed(
            f"the server of {path} has died; what it runs goes on,"
            " and `execzmq serve --name NAME` takes that over"
        )
    return info


def _no_default() -> str:
    """Say that there is no default server, and what of one that has died or left its commands."""
    from execzmq import connection
    from execzmq.client.known import left_alone

    info: ConnectionInfo | None
    try:
        info = connection.load(connection.state_folder(DEFAULT_NAME) / "connection.json")
    except ConnectionFailed:
        info = None
    if info is None and DEFAULT_NAME in left_alone():
        return absent.left_alone(DEFAULT_NAME)
    if info is None or info.host != connection.host_id():
        return "no default server runs; `execzmq run` or `execzmq start` starts one"
    return (
        f"the default server (pid {info.pid}) has died; what it runs goes on,"
        " and `execzmq run -- true` starts a server that takes that over"
    )


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
