"""Answer what must not wait behind the other requests."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from execzmq.protocol.values import report_to_wire
from execzmq.server import requests
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply


async def _after(work: Coroutine[Any, Any, None]) -> Reply:
    await work
    return Reply()


def send_signal(
    context: Context, caller: Caller, request: requests.SendSignal, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Send a signal."""
    return _after(context.process(request.process_id, caller.session).signal(request.signal))


def terminate(
    context: Context, caller: Caller, request: requests.Terminate, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """End the tree of a process and report."""
    handle = context.process(request.process_id, caller.session)

    async def answer() -> Reply:
        return Reply(report_to_wire(await handle.terminate(request.grace)))

    return answer()


def resize(
    context: Context, caller: Caller, request: requests.Resize, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Set the size of a terminal."""
    return _after(context.process(request.process_id, caller.session).resize(request.rows, request.cols))


def claim_keyboard(
    context: Context, caller: Caller, request: requests.ClaimKeyboard, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Let only this session type."""
    handle = context.process(request.process_id, caller.session)

    async def answer() -> Reply:
        if request.take_over:
            caller.peer.check_take_over(request.process_id, handle.require().keyboard)
        await handle.claim_keyboard(request.take_over)
        return Reply()

    return answer()


def release_keyboard(
    context: Context, caller: Caller, request: requests.ReleaseKeyboard, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Let everyone type again."""
    return _after(context.process(request.process_id, caller.session).release_keyboard())


def lease(context: Context, caller: Caller, request: requests.Lease, buffers: Sequence[Any]) -> Reply:
    """Renew a lease; take note of cursors and of the reads that are still waited for."""
    context.sessions.lease(caller.session, request.seconds, context.clock())
    context.pages.open_reads(caller.session, request.open)
    for process_id, (instance, seq) in request.cursors.items():
        process = context.backend.table.get(process_id)
        if process is not None and process.instance == instance and process.spec.starter == caller.session:
            process.streams.told(seq)
    return Reply({"epoch": context.identity.epoch})


def shutdown(context: Context, caller: Caller, request: requests.Shutdown, buffers: Sequence[Any]) -> Reply:
    """Begin the end of the server; the reply goes out before it."""
    context.request_shutdown()
    return Reply()
