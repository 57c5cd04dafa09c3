"""Own `ps`: what there is, and how it stands with it."""

from __future__ import annotations

import contextlib
import json
import os
import time

import click

from execzmq.cli import say
from execzmq.cli.options import json_option, on_option
from execzmq.cli.session import connected, go
from execzmq.cli.text import age, clock, command_line, plain, size, table
from execzmq.types.results import ProcessInfo

_HEADS = ("ID", "NAME", "STATE", "PID", "AGE", "OUTPUT", "COMMAND")
_USAGE_HEADS = ("CPU", "MEM", "PROCS")


@click.command("ps", short_help="List processes.")
@on_option
@click.option("-a", "--all", "show_all", is_flag=True, help="List those that have ended, too.")
@click.option("-u", "--usage", is_flag=True, help="Show the processor time and memory of each whole tree.")
@json_option
def ps_command(on: str | None, show_all: bool, usage: bool, as_json: bool) -> int:
    """List the processes of a server, the oldest first."""
    return go(_ps(on, show_all, usage, as_json))


async def _ps(on: str | None, show_all: bool, usage: bool, as_json: bool) -> int:
    async with connected(on) as backend:
        found = await backend.list_processes(usage)
    shown = [info for info in found if show_all or info.state not in ("closed", "failed")]
    if as_json:
        say.listing(json.dumps([plain(info) for info in shown], indent=2))
        return 0
    now = time.time()
    columns: list[tuple[str, ...]] = []
    if usage:
        columns += zip(_USAGE_HEADS, *map(_usage, shown), strict=True)
    if any(info.sandbox for info in shown):
        columns.append(("SANDBOX", *map(_sandbox, shown)))
    if any(info.host for info in shown):
        columns.append(("HOST", *(info.host for info in shown)))
    rows = [_HEADS, *(_row(info, now) for info in shown)]
    rows = [(*row[:-1], *cells, row[-1]) for row, *cells in zip(rows, *columns, strict=True)]
    for line in table(rows, width()):
        say.listing(line)
    return 0


def width() -> int | None:
    """Return the columns of the terminal that a listing goes to, `None` where it goes elsewhere."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(1).columns or None
    return None


def _row(info: ProcessInfo, now: float) -> tuple[str, ...]:
    return (
        info.process_id,
        info.name or "-",
        _state(info),
        "-" if info.pid is None or info.exited else str(info.pid),
        age(now - info.started_at) if info.started_at else "-",
        size(sum(info.output_bytes.values())),
        command_line(info.argv),
    )


def _usage(info: ProcessInfo) -> tuple[str, str, str]:
    """Return the processor time, the memory and the number of a command's processes."""
    if info.usage is None:
        return "-", "-", "-"
    return clock(info.usage.cpu_seconds), size(info.usage.memory_bytes), str(info.usage.processes)


def _sandbox(info: ProcessInfo) -> str:
    """Return how a process is confined: its profile, and its network where it has one."""
    if info.sandbox is None:
        return "-"
    mode = info.sandbox.get("network", {}).get("mode", "none")
    return str(info.sandbox.get("profile")) + ("" if mode == "none" else f"+{mode}")


def _state(info: ProcessInfo) -> str:
    if info.result is None or info.state == "failed":
        return info.state
    if info.result.cause in ("exited", "signaled"):
        return f"{info.state} ({say.status_of_result(info.result)})"
    return f"{info.state} ({info.result.cause})"
