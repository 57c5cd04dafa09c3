"""Own the options and arguments that commands share, and how a shell completes them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from execzmq.types.params import Limits, NetworkMode
from execzmq.types.sizes import parse_count, parse_duration, parse_size

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_NAMES = tuple(one.name for one in fields(Limits))
_SIZES = ("memory", "file_size")
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")

COMPLETION_SECONDS = 2.0
"""Seconds that a shell waits for names to complete."""


def complete_servers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the environments, the servers that have a connection file here, and paths once there is a `/`."""
    from execzmq.client.known import known
    from execzmq.environments import store
    from execzmq.errors import ExecZMQError

    if "/" in incomplete or incomplete.startswith((".", "~")):
        return [CompletionItem(incomplete, type="file")]
    names = {one.name for one in known()}
    with contextlib.suppress(ExecZMQError):
        names |= {one.name for one in store.known().environments.values() if one.kind != "local"}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_processes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer ids and names of processes, of a server that runs; nothing where it does not answer at once."""
    import asyncio

    from execzmq.errors import ExecZMQError

    try:
        items = asyncio.run(_items(ctx.params.get("on")))
    except (ExecZMQError, OSError, TimeoutError):
        return []
    return [item for item in items if item.value.startswith(incomplete)]


async def _items(on: str | None) -> list[CompletionItem]:
    import asyncio

    from execzmq.cli.session import connected
    from execzmq.cli.text import command_line

    async with asyncio.timeout(COMPLETION_SECONDS), connected(on) as backend:
        found = await backend.list_processes()
    items = []
    for info in found:
        words = f"{info.state}: {command_line(info.argv)[:60]}"
        items += [CompletionItem(value, help=words) for value in (info.process_id, info.name) if value]
    return items


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the permission profiles of a server that runs; nothing where it does not answer at once."""
    import asyncio

    from execzmq.errors import ExecZMQError

    try:
        items = asyncio.run(_profiles(ctx.params.get("on")))
    except (ExecZMQError, OSError, TimeoutError):
        return []
    return [item for item in items if item.value.startswith(incomplete)]


async def _profiles(on: str | None) -> list[CompletionItem]:
    import asyncio

    from execzmq.cli.session import connected

    async with asyncio.timeout(COMPLETION_SECONDS), connected(on) as backend:
        return [CompletionItem(one.name, help=one.description) for one in await backend.profiles()]


def complete_signals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the names of signals."""
    import signal

    names = sorted(one.name.removeprefix("SIG") for one in signal.Signals)
    wanted = incomplete.upper().removeprefix("SIG")
    return [CompletionItem(name) for name in names if name.startswith(wanted)]


on_option = click.option(
    "--on",
    metavar="ENV",
    shell_complete=complete_servers,
    is_eager=True,
    help="Name of an environment or a server, or path of a connection file.  [default: your own server]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
process_argument = click.argument("process", shell_complete=complete_processes)
processes_argument = click.argument(
    "processes", nargs=-1, required=True, metavar="PROCESS...", shell_complete=complete_processes
)
detach_keys_option = click.option(
    "--detach-keys",
    metavar="KEYS",
    default="ctrl-p,ctrl-q",
    show_default=True,
    callback=lambda ctx, param, value: parse_keys(value),
    help="Keys that detach: letters and ctrl-LETTER, joined by commas; empty for none.",
)


def start_options(command: F) -> F:
    """Add what `run` and `start` say alike of a command."""
    for decorate in reversed(_START_OPTIONS):
        command = decorate(command)
    return command


def sandbox_options(command: F) -> F:
    """Add what says how commands are confined."""
    for decorate in reversed(_SANDBOX_OPTIONS):
        command = decorate(command)
    return command


def _variables(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Read `NAME=VALUE`; `NAME` alone takes over the caller's, if it has one."""
    found = {}
    for entry in value:
        name, equals, text = entry.partition("=")
        if not name:
            raise click.BadParameter(f"{entry!r} is not NAME=VALUE", ctx, param)
        if equals:
            found[name] = text
        elif name in os.environ:
            found[name] = os.environ[name]
    return found


def _limits(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Limits | None:
    """Read `NAME=N`; bytes may have a unit."""
    found = {}
    for entry in value:
        name, _, text = entry.partition("=")
        if name not in LIMIT_NAMES:
            raise click.BadParameter(
                f"{entry!r} is not NAME=N with one of {', '.join(LIMIT_NAMES)}", ctx, param
            )
        try:
            found[name] = parse_size(text) if name in _SIZES else parse_count(text)
        except ValueError as error:
            words = _as_seconds(text) if name == "cpu" else ""
            raise click.BadParameter(f"{name}: {words or error}", ctx, param) from None
    return Limits(**found) if found else None


def _as_seconds(text: str) -> str:
    """Say how a time is written as the seconds that are asked for, where it is one."""
    with contextlib.suppress(ValueError):
        return f"{text!r} is no number of seconds: write {max(1, round(parse_duration(text)))}"
    return ""


def _resources(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, float] | None:
    """Read `NAME=N,…`, as Dask's workers do; N may have a unit, as a size has."""
    found: dict[str, float] = {}
    for entry in filter(None, ",".join(value).split(",")):
        name, _, text = entry.partition("=")
        if not name or not text:
            raise click.BadParameter(f"{entry!r} is not NAME=N, such as gpu=1", ctx, param)
        try:
            found[name] = float(text) if _NUMBER.fullmatch(text) else parse_size(text)
        except ValueError as error:
            raise click.BadParameter(f"{name}: {error}", ctx, param) from None
    return found or None


_SANDBOX_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--sandbox",
        metavar="PROFILE",
        shell_complete=complete_profiles,
        help="Permission profile to confine the command with.  [default: the server's]",
    ),
    click.option(
        "--root",
        "roots",
        metavar="DIR",
        multiple=True,
        type=click.Path(path_type=bytes),
        help="Folder that it may write to.  [default: its working directory]",
    ),
    click.option(
        "--network",
        type=click.Choice(get_args(NetworkMode)),
        help="What it may reach.  [default: as the profile has it]",
    ),
    click.option(
        "--allow-host",
        "hosts",
        metavar="HOST[:PORT]",
        multiple=True,
        help="Host that it may reach through the proxy; *.NAME for those below.",
    ),
)
_START_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    on_option,
    click.option("--name", metavar="N", help="A readable name, unique among the living."),
    click.option("--id", "process_id", metavar="ID", help="An id of your choice.  [default: one is made]"),
    click.option("--cwd", metavar="DIR", help="Working directory of the command."),
    click.option(
        "-e",
        "--env",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_variables,
        help="Set a variable; NAME alone passes yours on.",
    ),
    click.option(
        "--env-policy",
        type=click.Choice(["all", "core", "none"]),
        help="Variables to begin with: all, the few that programs need, or none.",
    ),
    *_SANDBOX_OPTIONS,
    click.option(
        "--limit",
        "limits",
        metavar="NAME=N",
        multiple=True,
        callback=_limits,
        help=f"Limit of its {', '.join(LIMIT_NAMES)}, such as memory=1G.",
    ),
    click.option(
        "--resources",
        metavar="NAME=N",
        multiple=True,
        callback=_resources,
        help="On a cluster: what it takes of a worker, such as gpu=1,memory=2G.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="End the command and all that it started after S seconds: TERM, 5 seconds later KILL.",
    ),
    click.argument(
        "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]..."
    ),
)

COMMAND_SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""Words after the command's name are its own."""


def parse_keys(text: str) -> bytes:
    """Return the bytes of a sequence of keys like `ctrl-p,ctrl-q`.

    Raises:
        click.BadParameter: a part is no key.
    """
    return b"".join(_key(part.strip().lower()) for part in text.split(",")) if text else b""


def _key(name: str) -> bytes:
    letter = name.removeprefix("ctrl-")
    if len(letter) == 1 and letter.isascii() and letter.isprintable():
        if letter == name:
            return letter.encode()
        if letter.isalpha() or letter in "@[\\]^_":
            return bytes((ord(letter.upper()) & 0x1F,))
    raise click.BadParameter(f"{name!r} is no key: a character, or ctrl- and a letter, is")
