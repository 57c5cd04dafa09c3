"""Own `share`, `shares` and `revoke`: connection files for others, and taking them back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from execzmq.cli import say
from execzmq.cli.listing import width
from execzmq.cli.options import complete_processes, json_option, on_option, sandbox_options
from execzmq.cli.session import connected, go
from execzmq.cli.text import age, plain, printable, readable, table
from execzmq.errors import NotFound
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import Role, ShareInfo
from execzmq.types.sizes import parse_duration

if TYPE_CHECKING:
    from execzmq.connection import ConnectionInfo


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command("share", short_help="Write a connection file to hand out.")
@on_option
@click.option(
    "--role",
    type=click.Choice(get_args(Role)),
    default="observer",
    show_default=True,
    help="What its holder may do: watch, start sandboxed commands too, or all that you may.",
)
@click.option(
    "--process",
    "processes",
    metavar="P",
    multiple=True,
    shell_complete=complete_processes,
    help="Process that it may watch, and as an operator act on. May be repeated.",
)
@click.option(
    "--expires",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=_duration,
    help="When it ends: 8h from now, say; s, m, h or d.",
)
@click.option(
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write the file; one that exists is left alone.",
)
@sandbox_options
def share_command(on: str | None, output: Path, **options: Any) -> int:
    """Let somebody in over the network, and print the id of the share.

    Whoever has the file can do what it allows, until it ends or is revoked: hand it out over a safe way. With
    its first share a server begins to listen on tcp.
    """
    named = {"workspace_roots": options.pop("roots"), "allowed_hosts": options.pop("hosts") or None}
    return go(_share(on, output, {**options, **named}))


async def _share(on: str | None, output: Path, options: Any) -> int:
    from execzmq.client.arguments import this_process
    from execzmq.client.terms import share_terms
    from execzmq.connection import load

    async with connected(on, start=True) as backend:
        caller = this_process() if backend.is_local else None
        made = await backend.share(share_terms(options, caller), output)
    say.listing(made.share_id)
    say.line(_summary(made, load(output), output))
    return 0


def _summary(made: ShareInfo, info: ConnectionInfo, output: Path) -> str:
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(made.expires_at))
    where = info.endpoint("shell").removeprefix("tcp://")
    return (
        f"{output} lets an {made.role} in at {where} until {until}; `execzmq revoke {made.share_id}` ends it"
    )


@click.command("shares", short_help="List the connection files that were handed out.")
@on_option
@json_option
def shares_command(on: str | None, as_json: bool) -> int:
    """List the shares of a server that are in force."""
    return go(_shares(on, as_json))


async def _shares(on: str | None, as_json: bool) -> int:
    async with connected(on) as backend:
        found = await backend.shares()
    if as_json:
        say.listing(json.dumps([plain(one) for one in found], indent=2))
        return 0
    now = time.time()
    rows = [("ID", "ROLE", "ENDS IN", "PROCESSES", "SANDBOX"), *(_row(one, now) for one in found)]
    for line in table(rows, width()):
        say.listing(line)
    return 0


def _row(share: ShareInfo, now: float) -> tuple[str, ...]:
    processes = ",".join(share.processes) or ("all" if share.role == "owner" else "-")
    return share.share_id, share.role, age(share.expires_at - now), processes, _sandbox(share.sandbox)


def _sandbox(sandbox: SandboxIntent | None) -> str:
    if sandbox is None:
        return "-"
    words = [sandbox.profile, *map(readable, sandbox.workspace_roots)]
    if sandbox.network not in (None, "none"):
        words.append(f"+{sandbox.network}")
    return printable(" ".join(words))


@click.command("revoke", short_help="Take a connection file back.")
@on_option
@click.argument("shares", nargs=-1, required=True, metavar="ID-OR-FILE...")
def revoke_command(on: str | None, shares: tuple[str, ...]) -> int:
    """End shares, by id or by a copy of the file: their holders are refused from now on, and cut off."""
    return go(_revoke(on, shares))


async def _revoke(on: str | None, shares: tuple[str, ...]) -> int:
    from execzmq.client.sharing import id_of

    ids = [id_of(share) for share in shares]
    status = 0
    async with connected(on) as backend:
        for share_id in ids:
            try:
                await backend.revoke(share_id)
            except NotFound as error:  # the others shall end all the same
                status = say.failure(error)
    return status
