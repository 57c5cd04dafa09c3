"""Answer what the server is and whether all is well with it."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Sequence
from typing import Any

from execzmq.protocol.values import profile_to_wire, server_info_to_wire
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply
from execzmq.server.requests import Nothing
from execzmq.settings import PROTOCOL_VERSION, VERSION
from execzmq.types.results import ServerInfo

JUPYTER_PROTOCOL = "5.4"
FEATURES = ("backpressure", "keyboard", "page-by-file", "tty", "usage")


def kernel_info(context: Context, caller: Caller, request: Nothing, buffers: Sequence[Any]) -> Reply:
    """Answer what a Jupyter client asks first."""
    identity = context.identity
    return Reply(
        {
            "protocol_version": JUPYTER_PROTOCOL,
            "implementation": "execzmq",
            "implementation_version": VERSION,
            "language_info": {
                "name": "sh",
                "version": platform.release(),
                "mimetype": "text/x-sh",
                "file_extension": ".sh",
            },
            "banner": f"execzmq {VERSION} runs commands; it executes no code cells",
            "help_links": [],
            "execzmq": {
                "protocol": PROTOCOL_VERSION,
                "epoch": identity.epoch,
                "host": identity.host,
                "name": identity.name,
                "role": caller.peer.role,
                "features": list(FEATURES),
            },
        }
    )


def info(context: Context, caller: Caller, request: Nothing, buffers: Sequence[Any]) -> Reply:
    """Describe the server."""
    identity = context.identity
    described = ServerInfo(
        pid=identity.pid,
        epoch=identity.epoch,
        version=VERSION,
        name=identity.name,
        host=identity.host,
        role=caller.peer.role,
        started_at=identity.started_at,
        statistics={} if caller.peer.is_guest else context.statistics(),
    )
    return Reply(server_info_to_wire(described))


def profiles(context: Context, caller: Caller, request: Nothing, buffers: Sequence[Any]) -> Reply:
    """Describe the permission profiles."""

    described = context.backend.offer.describe(caller.peer.sandbox)
    return Reply({"profiles": [profile_to_wire(one) for one in described]})


def doctor(context: Context, caller: Caller, request: Nothing, buffers: Sequence[Any]) -> Awaitable[Reply]:
    """Examine the server's surroundings."""

    async def answer() -> Reply:
        findings = await context.examiner.examine()
        return Reply({"findings": [finding.to_dict() for finding in findings]})

    return answer()
