"""Answer what is written to processes."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from execzmq.server import requests
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply


def write(
    context: Context, caller: Caller, request: requests.Write, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Append a buffer to stdin, when there is room for it."""
    handle = context.process(request.process_id, caller.session)

    async def answer() -> Reply:
        data = memoryview(buffers[0]) if buffers else memoryview(b"")
        return Reply({"offset": await handle.write_at(request.offset, data, request.end)})

    return answer()
