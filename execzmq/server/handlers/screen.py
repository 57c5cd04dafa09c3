"""Answer what terminals show."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from execzmq.protocol.values import screen_to_wire
from execzmq.server import requests
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply

_ROOM_POLL = 1.0


def screen(
    context: Context, caller: Caller, request: requests.ShowScreen, buffers: Sequence[Any]
) -> Awaitable[Reply]:
    """Answer with the screen of a terminal, when there is room for it among the pages on their way."""
    handle = context.process(request.process_id, caller.session, request.instance)

    async def answer() -> Reply:
        shown = await handle.screen()
        while shown.data and not context.pages.room_for(caller.session, caller.connection, len(shown.data)):
            await context.pages.wait_room(caller.session, _ROOM_POLL)
            shown = await handle.screen()
        data = memoryview(shown.data)
        context.pages.sent(caller.session, caller.connection, caller.msg_id, data)
        return Reply(screen_to_wire(shown), [data])

    return answer()
