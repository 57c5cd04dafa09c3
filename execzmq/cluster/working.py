"""Own what runs on the workers: a task that holds a slot for one command, and answers on the host's server.

Knows no command: it runs on the server of its host, which the client asks itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from dataclasses import asdict
from typing import Any, TypedDict

from distributed import Worker, get_worker

from execzmq.client.remote import RemoteBackend
from execzmq.cluster.hosting import connection_file, here, id_here
from execzmq.errors import ConnectionFailed, ExecZMQError, RequestRejected, RequestTimeout, to_wire
from execzmq.settings import LONG_POLL
from execzmq.types.sharing import DAY, ShareTerms

DEVICES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
    "ZE_AFFINITY_MASK",
)
"""Variables by which a worker is given devices: a command that has its slot has them too."""
_PATIENCE = 30.0
"""Seconds for which a host's server may be away while a slot is held for a command."""
_AGAIN = 0.2

SHARE_SECONDS = 366 * DAY
"""How long a client is let in that does not say when it goes; the server mostly ends before."""


class Offer(TypedDict):
    """What a worker says of its host.

    Args:
        server: id of its server.
        host: name of the host.
        place: of the server: equal on both sides where its files can be read (see `connection.host_id`).
        file: path of its connection file there.
        worker: the worker's address.
        cwd: the worker's working directory.
        devices: variables of the worker's that name the devices it was given.
    """

    server: str
    host: str
    place: str
    file: str
    worker: str
    cwd: bytes
    devices: dict[str, str]


class Work:
    """What a task is told. Its `repr` is shown in dashboards and in logs.

    Args:
        process_id: whose slot it holds.
        name: of the cluster's servers.
    """

    def __init__(self, process_id: str, name: str) -> None:
        self.process_id = process_id
        self.name = name

    def __repr__(self) -> str:
        return f"<execzmq {self.process_id}>"


async def hold_slot(work: Work) -> None:
    """Offer this worker's host for a command and hold the slot while the command runs here.

    Run once more, after the loss of a worker, it holds nothing where the command runs elsewhere.

    Raises:
        ConnectionFailed: this host has had no server for long.
    """
    worker = get_worker()
    mine = await _offer(worker, work.name)
    ticket: dict[str, Any] = {"state": "offered"}
    while ticket["state"] == "offered":
        ticket = await worker.scheduler.execzmq_offer(process_id=work.process_id, offer=mine)
    if ticket["state"] == "over" or ticket["offer"]["server"] == mine["server"]:
        await _follow(work)  # of a ticket whose client has gone, too: what it has started may run here


async def describe(name: str, dask_worker: Worker) -> dict[str, Any]:
    """Answer a client that asks for this host's server: an offer, or the error under `error`."""
    try:
        return {**offer_of(dask_worker, name)}
    except ExecZMQError as error:
        return {"error": to_wire(error)}


async def admit(name: str, publickey: str, dask_worker: Worker) -> dict[str, Any]:
    """Let a client on another host in, as an owner; answer with the way in, or the error under `error`.

    The secret key stays with the client: nothing that opens a server passes through the cluster.
    """
    try:
        backend = await RemoteBackend.open(here(name))
        try:
            return asdict((await backend.admit(ShareTerms("owner", expires=SHARE_SECONDS), publickey))[1])
        finally:
            await backend.aclose()
    except ExecZMQError as error:
        return {"error": to_wire(error)}


def offer_of(worker: Worker, name: str) -> Offer:
    """Return what is to be said of this host.

    Raises:
        ConnectionFailed: it has no server. OSError: that is just ending.
    """
    info = here(name)
    return {
        "server": id_here(name, info),
        "host": info.hostname or socket.gethostname(),
        "place": info.host,
        "file": str(connection_file(name)),
        "worker": worker.address,
        "cwd": os.getcwdb(),
        "devices": {name: os.environ[name] for name in DEVICES if name in os.environ},
    }


async def _offer(worker: Worker, name: str) -> Offer:
    """Return what is to be said of this host when it has a server, which may be about to start."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE
    while True:
        try:
            return offer_of(worker, name)
        except (ConnectionFailed, OSError):
            if loop.time() > end:
                raise
        await asyncio.sleep(_AGAIN)


async def _follow(work: Work) -> None:
    """Wait until the command has exited, or its server has been away for long."""
    loop = asyncio.get_running_loop()
    seen = loop.time()
    while loop.time() - seen < _PATIENCE:
        with contextlib.suppress(ConnectionFailed, RequestTimeout):
            backend = await RemoteBackend.open(here(work.name))
            try:
                process = await backend.attach(work.process_id)
                while await process.ended("exited", LONG_POLL) is None:
                    seen = loop.time()
                return
            except RequestRejected:
                return  # it was not started, or has been forgotten
            finally:
                await backend.aclose()
        await asyncio.sleep(_AGAIN)
