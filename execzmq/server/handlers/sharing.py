"""Answer who is let in over the network, and let in and out."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from execzmq.aside import aside
from execzmq.errors import InvalidRequest
from execzmq.protocol.values import share_to_wire
from execzmq.server import requests
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply
from execzmq.server.network import CHANNELS, reachable
from execzmq.server.shares import checked_terms
from execzmq.types.sharing import ShareTerms

_SECONDS = 5.0
"""Time in which a disk must tell whether the roots of a share are there."""


def share(
    context: Context, caller: Caller, request: requests.Share, buffers: Sequence[Any]
) -> Reply | Awaitable[Reply]:
    """Let the holder of a key in."""
    terms = _with_ids(context, checked_terms(request.terms()))
    if terms.sandbox is None or not terms.sandbox.workspace_roots:
        return _shared(context, caller, terms, request.publickey)
    return _share_roots(context, caller, terms, request.publickey)


async def _share_roots(context: Context, caller: Caller, terms: ShareTerms, publickey: str) -> Reply:
    """Share folders, once it is known that they are there: whoever waits for a disk does so alone."""
    assert terms.sandbox is not None
    try:
        await aside(partial(_check_there, terms.sandbox.workspace_roots), _SECONDS)
    except TimeoutError:
        words = f"the roots were not found within {_SECONDS:.0f} s: does a file system not answer?"
        raise InvalidRequest(words, reason="slow_folders") from None
    except OSError as error:
        raise InvalidRequest(f"the roots cannot be looked at: {error.strerror}") from None
    caller.check_current()
    return _shared(context, caller, terms, publickey)


def _check_there(roots: Sequence[bytes]) -> None:
    """Raises InvalidRequest: one of the roots is not there."""
    for root in roots:
        if not os.path.isdir(root):
            shown = root.decode("utf-8", "backslashreplace")
            fault = "is no folder" if os.path.exists(root) else "does not exist"
            words = f"the root {shown!r} {fault} on the server's machine: make it, or name another"
            raise InvalidRequest(words, reason="root_not_found", root=shown)


def _shared(context: Context, caller: Caller, terms: ShareTerms, publickey: str) -> Reply:
    made, network, serverkey = context.sharing.create(terms, publickey, caller.peer)
    ports = {f"{channel}_port": network.port(channel) for channel in CHANNELS}
    where = {"ip": reachable(network.ip), **ports, "serverkey": serverkey}
    host = {"host": context.identity.host, "hostname": os.uname().nodename}
    return Reply({"share": share_to_wire(made), **where, **host})


def _with_ids(context: Context, terms: ShareTerms) -> ShareTerms:
    """Return terms that name processes by their ids, and a sandbox that can be one.

    Raises:
        ProcessNotFound: there is no such process. InvalidRequest: there can be no such sandbox.
    """
    if terms.sandbox is not None:
        context.backend.offer.share_ceiling(terms.sandbox)
    found = (context.backend.table.find(process).process_id for process in terms.processes)
    return replace(terms, processes=tuple(found))


def shares(context: Context, caller: Caller, request: requests.Nothing, buffers: Sequence[Any]) -> Reply:
    """Describe the shares in force."""
    return Reply({"shares": [share_to_wire(one) for one in context.sharing.book]})


def revoke(context: Context, caller: Caller, request: requests.Revoke, buffers: Sequence[Any]) -> Reply:
    """Take a share back."""
    context.sharing.revoke(request.share_id, caller.peer)
    return Reply()
