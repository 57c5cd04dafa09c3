"""Own how a process's events reach our stdout and stderr, and our stdin the process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from execzmq import errors
from execzmq.cli import say
from execzmq.cli.input import Input
from execzmq.cli.output import Output
from execzmq.types import events
from execzmq.types.backend import ExecProcess
from execzmq.types.results import ExitResult

DRAIN = 1.0
"""Seconds after a command's exit for which the end of its streams is awaited."""
GRACE = 5.0
"""Seconds between TERM and KILL where we end a command."""


async def copy(
    process: ExecProcess,
    output: Output,
    *,
    after_seq: int = 0,
    drain: float | None = None,
    on_output: Callable[[events.Output], bytes] = lambda event: event.data,
) -> ExitResult:
    """Write a process's output as it comes until its streams have ended; return how it ended.

    Args:
        drain: seconds after the exit at which to stop; `None` = wait for the streams' end.
        on_output: returns what is written for an event.

    Raises:
        ExecZMQError: it could not be started, or what `subscribe_events` raises. OSError: from the output.
    """
    result: ExitResult | None = None
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope, following(process, after_seq) as stream:
            async for event in stream:
                if isinstance(event, events.Output):
                    await output.write(event.stream, on_output(event))
                elif isinstance(event, events.Gap):
                    await output.finish()
                    say.gap(event)
                elif isinstance(event, events.Notice):
                    await output.finish()
                    say.notice(process.process_id, event)
                elif isinstance(event, events.Exited):
                    result = event.result
                    scope.reschedule(None if drain is None else loop.time() + drain)
                elif isinstance(event, events.Closed):
                    result = event.result
                elif isinstance(event, events.Failed):
                    raise errors.from_wire(event.error)
    except TimeoutError:
        if not scope.expired():
            raise
    await output.finish()
    if result is None:  # its end came before `after_seq`
        result = (await process.info()).result
    if result is None:
        raise errors.RemoteProtocolError(f"the events of {process.process_id} ended without its end")
    return result


@contextlib.asynccontextmanager
async def following(process: ExecProcess, after_seq: int) -> AsyncIterator[AsyncIterator[events.Event]]:
    """Subscribe to a process's events and end the subscription afterwards."""
    stream = process.subscribe_events(after_seq)
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


@contextlib.asynccontextmanager
async def beside(work: Any) -> AsyncIterator[None]:
    """Do `work` meanwhile and end it afterwards."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` to its end, also where we are cancelled meanwhile; that is raised afterwards."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


async def feed(process: ExecProcess, source: Input) -> None:
    """Write our stdin to the process's and close it at the end; stop when nobody reads it any more."""
    try:
        while data := await _read(source):
            await process.write(data)
        await process.write(b"", end=True)
    except (errors.StdinClosed, errors.ProcessNotRunning, errors.ProcessNotFound):
        return  # as with a pipe whose reader has gone
    except errors.ConnectionFailed:
        return  # told by those who follow the output
    except errors.ExecZMQError as error:
        say.line(f"stdin was not passed on: {error}")


async def _read(source: Input) -> bytes:
    try:
        return await source.read()
    except OSError as error:
        say.line(f"cannot read stdin: {error.strerror}")
        return b""


async def end_tree(process: ExecProcess) -> None:
    """End a command whose output has nowhere to go any more."""
    with contextlib.suppress(errors.ExecZMQError):
        await process.terminate(GRACE)
