"""Own the commands that act on processes and print nothing but what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import click

from execzmq import settings
from execzmq.cli import say
from execzmq.cli.options import complete_signals, on_option, process_argument, processes_argument
from execzmq.cli.session import connected, find, go
from execzmq.errors import ExecZMQError
from execzmq.types.backend import ExecProcess
from execzmq.types.results import ProcessRef, TerminateReport


@click.command("wait", short_help="Wait until a process has exited.")
@on_option
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="S", help="Give up after S seconds, with status 124."
)
@process_argument
def wait_command(on: str | None, timeout: float | None, process: str) -> int:
    """Wait until a process has exited and end as it ended."""
    return go(_wait(on, process, timeout))


async def _wait(on: str | None, text: str, limit: float | None) -> int:
    async with connected(on) as backend:
        process = await find(backend, text)
        loop = asyncio.get_running_loop()
        deadline = None if limit is None else loop.time() + limit
        while True:
            left = settings.LONG_POLL if deadline is None else max(deadline - loop.time(), 0.0)
            info = await process.wait("exited", min(left, settings.LONG_POLL))
            if info.result is not None and (info.exited or info.closed or info.state == "failed"):
                return say.end(process.process_id, info.result)
            if info.state == "failed":
                say.line(f"{process.process_id} could not be started")
                return say.FAILED
            if deadline is not None and loop.time() >= deadline:
                say.line(f"{process.process_id} is still running after {limit:g} s")
                return say.TIMED_OUT


@click.command("write", short_help="Write to a process's stdin.")
@on_option
@click.option("--end", is_flag=True, help="Close its stdin afterwards.")
@process_argument
@click.argument("text", required=False)
def write_command(on: str | None, end: bool, process: str, text: str | None) -> int:
    """Write TEXT as it is, without a newline, or all of our stdin, to a process's stdin or terminal."""
    return go(_write(on, process, text, end))


async def _write(on: str | None, name: str, text: str | None, end: bool) -> int:
    import os

    from execzmq.cli.input import Input

    async with connected(on) as backend:
        process = await find(backend, name)
        if text is not None:
            data = os.fsencode(text)
            for begin in range(0, len(data), settings.WRITE_PIECE):
                await process.write(data[begin : begin + settings.WRITE_PIECE])
        else:
            source = Input()
            while data := await source.read():
                await process.write(data)
        if end:
            await process.write(b"", end=True)
    return 0


@click.command("signal", short_help="Send a signal to a process.")
@on_option
@process_argument
@click.argument("signal", shell_complete=complete_signals)
def signal_command(on: str | None, process: str, signal: str) -> int:
    """Send SIGNAL, a name or a number, to the process group of a command."""
    wanted: str | int = int(signal) if signal.isdecimal() else signal.upper()
    return go(_for_each(on, (process,), lambda one: one.signal(wanted)))


@click.command("stop", short_help="End processes: TERM, then KILL.")
@on_option
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="S",
    default=5.0,
    show_default=True,
    help="Seconds between TERM and KILL.",
)
@processes_argument
def stop_command(on: str | None, grace: float, processes: tuple[str, ...]) -> int:
    """End processes with all that they started: TERM, S seconds later KILL.

    The exit status is 1 where anyone has survived.
    """
    return go(_end(on, processes, grace))


@click.command("kill", short_help="Kill processes at once.")
@on_option
@processes_argument
def kill_command(on: str | None, processes: tuple[str, ...]) -> int:
    """Kill processes with all that they started, at once.

    The exit status is 1 where anyone has survived.
    """
    return go(_end(on, processes, 0.0))


async def _end(on: str | None, texts: Sequence[str], grace: float) -> int:
    reports: list[TerminateReport] = []

    async def end(process: ExecProcess) -> None:
        reports.append(await process.terminate(grace))

    status = await _for_each(on, texts, end, together=True)
    survivors = [one for report in reports for one in report.survivors]
    unattributed = [one for report in reports for one in report.unattributed]
    if unattributed:
        say.line(f"left alone, as they may belong to others: {_names(unattributed)}")
    if survivors:
        say.line(f"still alive: {_names(survivors)}")
        return 1
    return status


def _names(found: Sequence[ProcessRef]) -> str:
    return ", ".join(f"{one.pid} ({one.command})" for one in found)


@click.command("resize", short_help="Set the size of a process's terminal.")
@on_option
@process_argument
@click.argument("rows", type=click.IntRange(1, 65535))
@click.argument("cols", type=click.IntRange(1, 65535))
def resize_command(on: str | None, process: str, rows: int, cols: int) -> int:
    """Give a process's terminal ROWS lines of COLS characters."""
    return go(_for_each(on, (process,), lambda one: one.resize(rows, cols)))


@click.command("forget", short_help="Remove ended processes and their logs.")
@on_option
@processes_argument
def forget_command(on: str | None, processes: tuple[str, ...]) -> int:
    """Remove ended processes and what they have said."""
    return go(_for_each(on, processes, lambda one: one.forget()))


async def _for_each(
    on: str | None,
    texts: Sequence[str],
    act: Callable[[ExecProcess], Awaitable[None]],
    *,
    together: bool = False,
) -> int:
    """Act on each process; one that fails does not keep the others from it."""
    async with connected(on) as backend:

        async def one(text: str) -> int:
            try:
                await act(await find(backend, text))
            except ExecZMQError as error:
                return say.failure(error)
            return 0

        if together:
            return max(await asyncio.gather(*map(one, texts)))
        return max([await one(text) for text in texts])
