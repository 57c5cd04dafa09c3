"""Own the commands about servers as a whole: `connections` and `shutdown`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING

import click

from execzmq.cli import absent, say
from execzmq.cli.input import readable
from execzmq.cli.listing import width
from execzmq.cli.options import json_option, on_option
from execzmq.cli.session import connected, go, locate, place_of
from execzmq.cli.text import printable, table
from execzmq.client.known import Known, connection_file, known, left_alone
from execzmq.connection import ConnectionInfo, host_id
from execzmq.environments.model import Dask, Ssh
from execzmq.errors import ConnectionFailed, RequestTimeout, ServerLost

if TYPE_CHECKING:
    from execzmq.cli.session import Served

END_SECONDS = 30.0
"""Seconds in which a server that was told to end must be gone."""
_LOOK_SECONDS = 0.02


@click.command("connections", short_help="List servers.")
@json_option
def connections_command(as_json: bool) -> int:
    """List the connection files that are here, and whether anyone listens; keys are never shown.

    A server is `ended` where it left its commands running: the next one of its name takes them over.
    """
    return go(_connections(as_json))


async def _connections(as_json: bool) -> int:
    found, left = known(), left_alone()
    if as_json:
        ended = [{"name": name, "state": "ended", "file": str(connection_file(name))} for name in left]
        say.listing(json.dumps([*map(_entry, found), *ended], indent=2))
        return 0
    rows = [("NAME", "STATE", "PID", "HOST", "FILE"), *map(_row, found)]
    rows += [(name, "ended", "-", "-", str(connection_file(name))) for name in left]
    for line in table(rows, width()):
        say.listing(line)
    for name in left:
        say.line(absent.left_alone(name))
    return 0


def _state(one: Known) -> str:
    return "unusable" if one.info is None else "alive" if one.is_alive else "dead"


def _row(one: Known) -> tuple[str, ...]:
    pid = one.info.pid if one.info is not None else 0
    host = one.info.hostname if one.info is not None else ""
    cells = (one.name, _state(one), str(pid or "-"), host or "-", str(one.path))
    return tuple(map(printable, cells))


def _entry(one: Known) -> dict[str, object]:
    entry: dict[str, object] = {"name": one.name, "state": _state(one), "file": str(one.path)}
    if one.info is None:
        return {**entry, "problem": one.problem}
    public = ("pid", "hostname", "role", "transport", "version", "epoch")
    return {**entry, **{name: getattr(one.info, name) for name in public}}


@click.command("shutdown", short_help="End a server and its processes.")
@on_option
@click.option("--all", "every", is_flag=True, help="End all servers of yours on this host.")
def shutdown_command(on: str | None, every: bool) -> int:
    """End every process of a server, TERM first, and then the server itself; return when it is gone."""
    if every and on is not None:
        raise click.UsageError("--all ends all: leave --on out")
    return go(_shutdown_all() if every else _shutdown(on))


async def _shutdown(on: str | None) -> int:
    if isinstance(place_of(on), Ssh | Dask):
        async with connected(on) as backend:
            await _end_far(backend)
        return 0
    await _end(await locate(on))
    return 0


async def _shutdown_all() -> int:
    found = [one.info for one in known() if one.info is not None and one.is_alive]
    living = [info for info in found if info.transport == "ipc"]  # the others may be on other hosts
    dead = [one for one in known() if one.info is not None and not one.is_alive and _is_here(one.info)]
    left = left_alone()
    if not living and not dead and not left:
        say.line("no server runs")
    status = 0
    for name in left:
        say.line(f"{absent.left_alone(name)}, and may be shut down then")
        status = say.FAILED
    for one in dead:
        say.line(f"the server {one.name} has died: what it ran may go on; start and end it again to end that")
        status = say.FAILED
    for outcome in await asyncio.gather(*map(_end, living), return_exceptions=True):
        if isinstance(outcome, Exception):
            status = say.failure(outcome)
        elif outcome is not None:
            raise outcome
    return status


def _is_here(info: ConnectionInfo) -> bool:
    return info.transport == "ipc" and info.host == host_id()


async def _end(info: ConnectionInfo) -> None:
    from execzmq.client.remote import RemoteBackend

    gone = _pidfd(info)
    try:
        backend = await RemoteBackend.open(info)
        try:
            with contextlib.suppress(ConnectionFailed):  # it may be quicker than its answer
                await backend.shutdown()
        finally:
            await backend.aclose()
        if gone is not None:
            await _ended(gone, info)
    finally:
        if gone is not None:
            os.close(gone)


async def _end_far(backend: Served) -> None:
    """End a server whose process cannot be seen from here: it is gone when it answers nobody any more."""
    with contextlib.suppress(ServerLost):  # it may be quicker than its answer
        await backend.shutdown()
    try:
        async with asyncio.timeout(END_SECONDS):
            while backend.is_up:  # noqa: ASYNC110  # a connection's end sets no event
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"the server {backend.name} is still ending after {END_SECONDS:g} s") from None


def _pidfd(info: ConnectionInfo) -> int | None:
    """Return a descriptor that becomes readable when the server has ended; `None` where it is not here."""
    if info.host != host_id() or not hasattr(os, "pidfd_open"):
        return None
    with contextlib.suppress(OSError):
        return os.pidfd_open(info.pid)
    return None


async def _ended(gone: int, info: ConnectionInfo) -> None:
    try:
        async with asyncio.timeout(END_SECONDS):
            await readable(gone)
    except TimeoutError:
        raise RequestTimeout(f"the server (pid {info.pid}) is still ending after {END_SECONDS:g} s") from None
