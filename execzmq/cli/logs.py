"""Own `logs`: a process's output as it was, or as a recording that can be played."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from execzmq.cli import say
from execzmq.cli.options import on_option, process_argument
from execzmq.cli.session import connected, find, go
from execzmq.types.backend import ExecProcess
from execzmq.types.events import Event, Gap, Notice, last_seq_of
from execzmq.types.events import Output as OutputEvent

if TYPE_CHECKING:
    from execzmq.cli.output import Output
    from execzmq.cli.tail import Beginning

Show = Callable[["Output", Event], Awaitable[None]]
"""Writes what is to be shown of an event."""


def _lines(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """Read a number of lines; `all` is None."""
    if value == "all":
        return None
    if not (value.isascii() and value.isdecimal()):
        raise click.BadParameter(f"{value!r} is neither a number of lines nor 'all'", ctx, param)
    return int(value)


@click.command("logs", short_help="Print what a process has said.")
@on_option
@click.option("-f", "--follow", is_flag=True, help="Go on until its streams have ended.")
@click.option(
    "-n",
    "--tail",
    metavar="N",
    default="all",
    show_default=True,
    callback=_lines,
    help="Begin with the last N lines.",
)
@click.option("--since-seq", type=click.IntRange(min=0), metavar="N", default=0, help="Begin after event N.")
@click.option("--stream", type=click.Choice(["stdout", "stderr"]), help="Print one stream only.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "asciicast"]),
    default="text",
    show_default=True,
    help="As text, or as a recording to be played.",
)
@process_argument
def logs_command(
    on: str | None,
    follow: bool,
    tail: int | None,
    since_seq: int,
    stream: str | None,
    form: str,
    process: str,
) -> int:
    """Print what a process has said, its stdout to stdout and its stderr to stderr.

    A recording (asciicast, version 3) has both in the order in which they came, on stdout.
    """
    if form == "text":
        return go(_print(on, process, follow, tail, since_seq, stream))
    if tail is not None:
        raise click.UsageError("a recording begins with an event, not with a line: use --since-seq")
    return go(_record(on, process, follow, since_seq, stream))


async def _print(
    on: str | None, text: str, follow: bool, tail: int | None, since_seq: int, stream: str | None
) -> int:
    from execzmq.cli.tail import Beginning, last_lines

    async with connected(on) as backend:
        process = await find(backend, text)
        last_seq = (await process.info()).last_seq
        if tail is None:
            begin = Beginning(since_seq)
        else:
            begin = await last_lines(process, tail, last_seq=last_seq, after_seq=since_seq, stream=stream)
        show = _as_text(process.process_id, begin, stream)
        await _show_log(process, begin.after_seq, None if follow else last_seq, show)
    return 0


async def _record(on: str | None, text: str, follow: bool, since_seq: int, stream: str | None) -> int:
    from execzmq.cli.asciicast import Asciicast

    async with connected(on) as backend:
        process = await find(backend, text)
        info = await process.info()
        recording = Asciicast(info, stream)

        async def show(output: Output, event: Event) -> None:
            if line := recording.lines(event):
                await output.write("stdout", line)

        last_seq = None if follow else info.last_seq
        await _show_log(process, since_seq, last_seq, show, recording.header())
    return 0


async def _show_log(
    process: ExecProcess, after_seq: int, last_seq: int | None, show: Show, head: bytes = b""
) -> None:
    """Show `head` and what follows `after_seq`, up to the event `last_seq`; `None` = to the end."""
    from execzmq.cli.foreground import following
    from execzmq.cli.output import Output

    with contextlib.closing(Output()) as output:
        await output.write("stdout", head)
        if last_seq is None or after_seq < last_seq:
            async with following(process, after_seq) as found:
                async for event in found:
                    await show(output, event)
                    if last_seq is not None and last_seq_of(event) >= last_seq:
                        break
        await output.finish()


def _as_text(process_id: str, begin: Beginning, stream: str | None) -> Show:
    async def show(output: Output, event: Event) -> None:
        if isinstance(event, OutputEvent) and stream in (None, event.stream):
            await output.write(event.stream, begin.cut(event))
        elif isinstance(event, Gap):
            await output.finish()
            say.gap(event)
        elif isinstance(event, Notice):
            await output.finish()
            say.notice(process_id, event)

    return show
