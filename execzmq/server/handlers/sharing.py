"""Answer who is let in over the network, and let in and out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from execzmq.protocol.values import share_to_wire
from execzmq.server import requests
from execzmq.server.context import Context
from execzmq.server.dispatch import Caller, Reply
from execzmq.server.network import CHANNELS, reachable
from execzmq.server.shares import checked_terms
from execzmq.types.sharing import ShareTerms


def share(context: Context, caller: Caller, request: requests.Share, buffers: Sequence[Any]) -> Reply:
    """Let the holder of a key in."""
    terms = _with_ids(context, checked_terms(request.terms()))
    made, network, serverkey = context.sharing.create(terms, request.publickey, caller.peer)
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
