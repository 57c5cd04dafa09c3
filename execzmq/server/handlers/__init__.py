"""The handlers: one for each method, thin, without sockets and frames.

A handler takes the context, who asks, the checked request and its buffers. What is answered at once is
returned as a `Reply`; what takes time as an awaitable of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Handler, Later, Reply
from execzmq.server.handlers import about, control, processes, screen, sharing, stdin

_Function = Callable[[Context, Caller, Any, Sequence[Any]], "Reply | Later | Awaitable[Reply]"]

HANDLERS: dict[str, _Function] = {
    "kernel_info": about.kernel_info,
    "info": about.info,
    "doctor": about.doctor,
    "start": processes.start,
    "explain": processes.explain,
    "profiles": about.profiles,
    "list": processes.list_processes,
    "describe": processes.describe,
    "read": processes.read,
    "wait": processes.wait,
    "screen": screen.screen,
    "forget": processes.forget,
    "signal": control.send_signal,
    "terminate": control.terminate,
    "resize": control.resize,
    "claim_keyboard": control.claim_keyboard,
    "release_keyboard": control.release_keyboard,
    "lease": control.lease,
    "share": sharing.share,
    "shares": sharing.shares,
    "revoke": sharing.revoke,
    "shutdown": control.shutdown,
    "write": stdin.write,
}


def bind(context: Context) -> dict[str, Handler]:
    """Return the handlers with their context."""
    return {name: partial(function, context) for name, function in HANDLERS.items()}
