"""Own how `run` is carried out: one process, its streams copied to where they go, its end made a result.

Works on any backend; the only owner of the process, which it ends by KILL when it cannot go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from execzmq import settings
from execzmq.client.arguments import STDOUT
from execzmq.client.limit import within
from execzmq.client.plan import Plan
from execzmq.client.redirect import open_outputs, open_source
from execzmq.client.sinks import Capture, Sink
from execzmq.client.sources import Source
from execzmq.errors import (
    ExecZMQError,
    ProcessNotFound,
    ProcessNotRunning,
    StatusUnknown,
    StdinClosed,
    from_wire,
)
from execzmq.types.backend import ExecProcess
from execzmq.types.events import Closed, Event, Failed, Gap, Output, Stream
from execzmq.types.params import ExecParams
from execzmq.types.results import ExitResult, limits_met

END_TIME = 5.0
"""Seconds in which the end of what was killed must be known; nobody but its parent may know it at once."""

_NOTHING = memoryview(b"")
_cleanups: set[asyncio.Task[Any]] = set()


class CompletedProcess(subprocess.CompletedProcess[Any]):
    """What `subprocess.run` returns, and more.

    Args:
        result: how the command ended, in full.
        omitted: bytes per captured stream that `max_output` left out.
    """

    def __init__(
        self, args: Any, result: ExitResult, stdout: Any, stderr: Any, omitted: dict[Stream, int]
    ) -> None:
        code = result.returncode
        assert code is not None
        super().__init__(args, code, stdout, stderr)
        self.result = result
        self.omitted = omitted

    def check_returncode(self) -> None:
        """Raise the `CalledProcessError` of a command that failed."""
        if self.returncode:
            raise CalledProcessError(self.returncode, self.args, self.stdout, self.stderr, self.result)


class CalledProcessError(subprocess.CalledProcessError):
    """What `run` raises with `check`: subprocess's own, and more.

    A note, which a traceback shows, says what the exit status does not: a denial, or a limit that was met.

    Args:
        result: how the command ended, in full.
    """

    def __init__(self, returncode: int, cmd: Any, output: Any, stderr: Any, result: ExitResult) -> None:
        super().__init__(returncode, cmd, output, stderr)
        self.result = result
        if result.cause not in ("exited", "signaled") or limits_met(result):
            self.add_note("; ".join((str(result), *result.evidence)))


Ender: TypeAlias = Callable[[], Awaitable[None]]
"""Ends a command, whether it runs or is being started."""


class Starter(Protocol):
    """What `run` asks of a backend; see `ExecBackend`."""

    def new_process_id(self) -> str:
        """Return an id that no process has."""

    async def start(self, params: ExecParams) -> ExecProcess:
        """Start a command."""

    async def attach(self, id_or_name: str) -> ExecProcess:
        """Find a process."""


async def run(backend: Starter, plan: Plan, under_way: set[Ender]) -> CompletedProcess:
    """Carry out a plan; see `AsyncClient.run` for its errors and for what cancelling does.

    What ends it is in `under_way` from before it starts until nothing of it is left to end.
    """
    params = named(backend, plan.params)
    ender = partial(_end_if_started, backend, params)
    under_way.add(ender)
    try:
        return await _run(backend, plan, params)
    finally:
        under_way.discard(ender)


async def _run(backend: Starter, plan: Plan, params: ExecParams) -> CompletedProcess:
    sinks = open_outputs(plan.stdout, plan.stderr, lambda _: Capture(plan.max_output))
    source: Source | None = None
    try:
        source = None if plan.stdin is None else open_source(plan.stdin)
        process = await start_whole(backend, params)
        try:
            result = await _carry_out(process, plan, sinks, source)
        except BaseException:
            await end_tree(process)
            raise
    finally:
        if source is not None:
            source.close()
        for sink in sinks.values():
            sink.close()
    return _completed(plan, sinks, result)


def named(backend: Starter, params: ExecParams) -> ExecParams:
    """Return the parameters with an id, by which a start that is cancelled can be found again."""
    if params.process_id is not None:
        return params
    return replace(params, process_id=backend.new_process_id())


async def start_whole(backend: Starter, params: ExecParams) -> ExecProcess:
    """Start a command; cancelled in between, end it too, so that nothing is left that nobody knows of."""
    params = named(backend, params)
    try:
        return await backend.start(params)
    except asyncio.CancelledError:
        await _finish(_end_if_started(backend, params))
        raise


async def cleaned_up() -> None:
    """Wait until what was cancelled on this loop has been ended, also where its caller waits no more."""
    loop = asyncio.get_running_loop()
    if mine := [task for task in _cleanups if task.get_loop() is loop]:
        await asyncio.wait(mine)


async def end_tree(process: ExecProcess) -> None:
    """End the tree by KILL, also where the caller is cancelled once more meanwhile.

    Who asks afterwards is told of its end, but where something of it survives.
    """
    await _finish(_end(process))


async def feed(process: ExecProcess, source: Source | None, data: memoryview = _NOTHING) -> None:
    """Write `data` and then all of `source` to stdin and close it; end early when nobody reads it any more.

    Raises:
        OSError: the source cannot be read.
    """
    try:
        for begin in range(0, len(data), settings.WRITE_PIECE):
            await process.write(bytes(data[begin : begin + settings.WRITE_PIECE]))
        while source is not None and (piece := await source.read()):
            await process.write(piece)
        await process.write(b"", end=True)
    except (StdinClosed, ProcessNotRunning, ProcessNotFound):
        return  # as with a pipe whose reader has gone


async def _end_if_started(backend: Starter, params: ExecParams) -> None:
    """End what a start that was cancelled may have begun: who asks after it is answered after it."""
    assert params.process_id is not None
    with contextlib.suppress(ExecZMQError):
        await _end(await backend.attach(params.process_id))


async def _end(process: ExecProcess) -> None:
    # It has ended already, or the server has gone: the caller's own error says more.
    with contextlib.suppress(ExecZMQError):
        report = await process.terminate(0.0)
        if not report.survivors:
            await process.wait("exited" if report.unattributed else "closed", END_TIME)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _cleanups.add(task)
    task.add_done_callback(_cleanups.discard)
    await asyncio.shield(task)


async def _carry_out(
    process: ExecProcess, plan: Plan, sinks: dict[Stream, Sink], source: Source | None
) -> ExitResult:
    limit, copying = plan.params.timeout, _copy_and_feed(process, plan, sinks, source)
    if limit is None:
        return await copying
    return await within(limit + (plan.params.drain_limit or 0.0), copying, lambda: end_tree(process))


async def _copy_and_feed(
    process: ExecProcess, plan: Plan, sinks: dict[Stream, Sink], source: Source | None
) -> ExitResult:
    """Copy the streams and feed stdin meanwhile; raise at the end what went wrong with it."""
    if plan.stdin_data is None and source is None:
        return await _copy_until_closed(process, sinks)
    errors: list[Exception] = []
    feeding = asyncio.create_task(_feed_or_end(process, source, plan.stdin_data or _NOTHING, errors))
    try:
        result = await _copy_until_closed(process, sinks)
    finally:
        feeding.cancel()  # nothing happens to one that is done
        await asyncio.wait((feeding,))
    if errors:
        raise errors[0]
    return result


async def _feed_or_end(
    process: ExecProcess, source: Source | None, data: memoryview, errors: list[Exception]
) -> None:
    try:
        await feed(process, source, data)
    except Exception as error:
        errors.append(error)
        await end_tree(process)


async def _copy_until_closed(process: ExecProcess, sinks: dict[Stream, Sink]) -> ExitResult:
    events = process.subscribe_events()
    try:
        async for event in events:
            if isinstance(event, Output):
                await sinks[event.stream].write(event.data)
            elif isinstance(event, Closed):
                for sink in sinks.values():
                    await sink.finish()
                return event.result
            elif isinstance(event, (Failed, Gap)):
                _note(event)
    finally:
        await close_iterator(events)
    raise StatusUnknown("the events of the process ended before its streams did")


def _note(event: Failed | Gap) -> None:
    if isinstance(event, Failed):
        raise from_wire(event.error)
    warnings.warn(f"{event.bytes} bytes of the command's output are lost", RuntimeWarning, stacklevel=2)


def _completed(plan: Plan, sinks: dict[Stream, Sink], result: ExitResult) -> CompletedProcess:
    output, omitted = _captured(sinks)
    if plan.stderr == STDOUT:
        output.pop("stderr", None)
    if result.cause == "timed_out" and plan.timeout is not None:
        raise subprocess.TimeoutExpired(plan.args, plan.timeout, output.get("stdout"), output.get("stderr"))
    if result.returncode is None:
        raise StatusUnknown(
            f"the command is over, but how it ended is not known: {result}", cause=result.cause
        )
    stdout, stderr = _text(plan, output.get("stdout")), _text(plan, output.get("stderr"))
    completed = CompletedProcess(plan.args, result, stdout, stderr, omitted)
    if plan.check:
        completed.check_returncode()
    return completed


def _captured(sinks: dict[Stream, Sink]) -> tuple[dict[Stream, bytes], dict[Stream, int]]:
    """Return what was kept of each captured stream, and how many bytes were left out where some were."""
    output: dict[Stream, bytes] = {}
    omitted: dict[Stream, int] = {}
    for stream, sink in sinks.items():
        if isinstance(sink, Capture):
            output[stream] = sink.value()
            if left_out := sink.omitted:
                omitted[stream] = left_out
    return output, omitted


def _text(plan: Plan, output: bytes | None) -> Any:
    return output if plan.text is None or output is None else plan.text.decode(output)


async def close_iterator(iterator: AsyncIterator[Event]) -> None:
    """Close an async iterator now rather than when it is collected, where it can be closed."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is not None:
        await aclose()
