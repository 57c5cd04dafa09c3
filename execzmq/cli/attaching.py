"""Own `attach`: a running process's output here, and our keys or lines to it."""

from __future__ import annotations

import asyncio
import contextlib

import click

from execzmq.cli import say
from execzmq.cli.options import detach_keys_option, on_option, process_argument
from execzmq.cli.session import connected, find, go
from execzmq.types.backend import ExecProcess
from execzmq.types.results import ExitResult


@click.command("attach", short_help="Watch a process, and type to it.")
@on_option
@click.option("-i", "--interactive", is_flag=True, help="Pass stdin on to a process without a terminal.")
@click.option("--watch", is_flag=True, help="Only watch: pass no key on.")
@click.option("--take-over", is_flag=True, help="Take the keyboard from whoever holds it.")
@detach_keys_option
@process_argument
def attach_command(
    on: str | None, interactive: bool, watch: bool, take_over: bool, detach_keys: bytes, process: str
) -> int:
    """Show what a process has said and says, and end as it ends; leaving does nothing to it.

    Several may be attached to one terminal: the first has the keyboard, and its size applies. When that one
    leaves, the next who types has it. Without a terminal, Ctrl-C leaves.
    """
    if watch and (take_over or interactive):
        raise click.UsageError("--watch passes no key on: leave out --take-over and -i")
    return go(_attach(on, process, interactive, watch, take_over, detach_keys))


async def _attach(
    on: str | None, text: str, interactive: bool, watch: bool, take_over: bool, detach_keys: bytes
) -> int:
    from execzmq.cli.input import is_terminal
    from execzmq.cli.relay import Relay

    with Relay() as relay:
        try:
            async with connected(on) as backend:
                process = await find(backend, text)
                info = await process.info()
                if info.tty and is_terminal():
                    result = await _join(process, watch, take_over, detach_keys)
                else:
                    result = await _follow(process, interactive=interactive and not watch)
        except asyncio.CancelledError as error:
            status = relay.status(error)
            say.line(f"detached; `execzmq attach {text}` comes back")
            return status
    if result is None:
        return say.detached(process.process_id)
    return say.end(process.process_id, result)


async def _join(process: ExecProcess, watch: bool, take_over: bool, detach_keys: bytes) -> ExitResult | None:
    from execzmq.cli.joined import JoinedTerminal

    joined = JoinedTerminal(process, watch=watch, detach_keys=detach_keys)
    return await joined.run(has_past=True, take_over=take_over)


async def _follow(process: ExecProcess, *, interactive: bool) -> ExitResult:
    from execzmq.cli.foreground import DRAIN, beside, copy, feed
    from execzmq.cli.input import Input
    from execzmq.cli.output import Output

    with contextlib.closing(Output()) as output:
        if not interactive:
            return await copy(process, output, drain=DRAIN)
        async with beside(feed(process, Input())):
            return await copy(process, output, drain=DRAIN)
