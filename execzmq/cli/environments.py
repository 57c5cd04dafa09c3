"""Own `environments`: which there are, and which files of projects are trusted; connects to none."""

from __future__ import annotations

import json
import os
from dataclasses import fields

import click

from execzmq import connection
from execzmq.cli import say
from execzmq.cli.listing import width
from execzmq.cli.options import json_option
from execzmq.cli.session import go
from execzmq.cli.text import printable, table
from execzmq.client.launch import listens
from execzmq.environments import store, trust
from execzmq.environments.model import ConnectionFile, Environment, OwnServer, Ssh
from execzmq.environments.ssh_folder import connections_of
from execzmq.errors import ConnectionFailed, InvalidRequest

_ACTIONS = ("list", "trust", "untrust")


@click.command("environments", short_help="List the places where commands can run.")
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.argument("file", required=False, type=click.Path())
@json_option
def environments_command(action: str, file: str | None, as_json: bool) -> int:
    """List the environments that --on can name, and what is seen of them without connecting to any.

    With trust, read a project's FILE from now on, as long as its content is exactly what it is now; with
    untrust, do not any more. Without FILE that is .execzmq/environments.toml in the folder that you are in,
    or the nearest one above it.
    """
    if action == "list":
        if file is not None:
            raise click.UsageError("list takes no file: it shows what --on finds from here")
        return go(_list(as_json))
    if as_json:
        raise click.UsageError("--json goes with list: leave it out")
    return go(_trust(file) if action == "trust" else _untrust(file))


async def _list(as_json: bool) -> int:
    found = store.known()
    if as_json:
        say.listing(json.dumps(list(map(_entry, found.environments.values())), indent=2))
    else:
        rows = map(_row, found.environments.values())
        for line in table([("NAME", "KIND", "WHERE", "STATE", "FILE"), *rows], width()):
            say.listing(line)
    if found.untrusted:
        say.line(
            f"{found.untrusted} is not trusted in its present content, so it is not read;"
            " look at it, then `execzmq environments trust`"
        )
    return 0


def _row(one: Environment) -> tuple[str, ...]:
    return tuple(map(printable, (one.name, one.kind, one.where, _state(one), one.file or "built in")))


def _entry(one: Environment) -> dict[str, object]:
    place = {field.name: getattr(one.place, field.name) for field in fields(one.place)}
    if "name" in place:
        place["server"] = place.pop("name")
    return {"name": one.name, "kind": one.kind, **place, "state": _state(one), "file": one.file or None}


def _state(one: Environment) -> str:
    """Tell what is seen of an environment from here; `-` where only connecting would tell."""
    if isinstance(one.place, Ssh):
        told = connections_of(one.name)
        return "open" if any(told) else "broken" if told else "-"
    if isinstance(one.place, OwnServer):
        path = str(connection.state_folder(one.place.name) / "connection.json")
    elif isinstance(one.place, ConnectionFile):
        path = one.place.path
    else:
        return "-"
    if not os.path.lexists(path):
        return "none"
    try:
        return "alive" if listens(connection.load(path)) else "dead"
    except ConnectionFailed:
        return "unusable"


async def _trust(file: str | None) -> int:
    path = _path(file)
    for one in store.trust_project_file(path):
        say.listing(printable(f"{one.name}: {one.kind} {one.where}"))
    say.line(f"{path} is trusted with this content")
    return 0


async def _untrust(file: str | None) -> int:
    path = _path(file)
    was = trust.untrust(path)
    say.line(f"{path} {'is not trusted any more' if was else 'was not trusted'}")
    return 0


def _path(file: str | None) -> str:
    path = store.project_file() if file is None else os.path.realpath(file)
    if path is None:
        raise InvalidRequest("no folder from here upwards has .execzmq/environments.toml: name the file")
    return path
