"""Own `profiles`, and how it is shown what a start would be allowed and become."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from execzmq.cli import say
from execzmq.cli.listing import width
from execzmq.cli.options import json_option, on_option
from execzmq.cli.session import connected, go
from execzmq.cli.text import command_line, plain, printable, readable, table
from execzmq.types.results import ProfileInfo


@click.command("profiles", short_help="List the permission profiles for --sandbox.")
@on_option
@json_option
def profiles_command(on: str | None, as_json: bool) -> int:
    """List the permission profiles that a server has: the built-in ones, and those of its user's own.

    A star marks the one that a command gets without --sandbox; no command gets more than that one allows.
    """
    return go(_profiles(on, as_json))


async def _profiles(on: str | None, as_json: bool) -> int:
    async with connected(on, start=True) as backend:
        found = await backend.profiles()
    if as_json:
        say.listing(json.dumps([plain(one) for one in found], indent=2))
        return 0
    for line in table([("", "NAME", "WRITES", "NETWORK", "DESCRIPTION"), *map(_row, found)], width()):
        say.listing(line)
    return 0


def _row(one: ProfileInfo) -> tuple[str, ...]:
    fields = one.fields
    if not fields.get("confined", True):
        writes = network = "all"
    else:
        network = str(fields.get("network", "-"))
        writes = ", ".join(map(_text, [*fields.get("writable", ()), *fields.get("workspaces", ())])) or "/tmp"
    cells = ("*" if one.is_default else "", one.name, writes, network, one.description or "-")
    return tuple(map(printable, cells))


def _text(value: object) -> str:
    return "its roots" if value == "any" else str(plain(value))


def show_explanation(explained: Mapping[str, Any]) -> None:
    """Print what a start would become, a line for each thing."""
    for line in _lines(explained):
        say.listing(printable(line))


def _lines(explained: Mapping[str, Any]) -> Iterator[str]:
    sandbox = explained["sandbox"]
    if sandbox is None:
        yield "sandbox: none, the command is not confined"
    for name, value in (sandbox or {}).items():
        yield f"sandbox {name}: {_value(value)}"
    yield f"cwd: {readable(explained['cwd'])}"
    yield f"variables: {' '.join(map(readable, explained['env'])) or 'none'}"
    yield from _changes(explained["env_changes"] or {})
    yield f"command: {command_line(explained['argv'])}"
    if explained["arguments"]:
        yield f"with these arguments by a descriptor: {command_line(explained['arguments'])}"


def _changes(changes: Mapping[bytes, bytes | None]) -> Iterator[str]:
    named = {readable(name): value for name, value in sorted(changes.items())}
    own = [f"{name}={readable(value)}" for name, value in named.items() if value is not None]
    gone = [name for name, value in named.items() if value is None]
    if own:
        yield f"variables that the sandbox sets: {' '.join(own)}"
    if gone:
        yield f"variables that it takes out: {' '.join(gone)}"


def _value(value: object) -> str:
    shown = plain(value)
    if isinstance(shown, list):
        return ", ".join(map(str, shown)) or "none"
    return shown if isinstance(shown, str) else json.dumps(shown)
