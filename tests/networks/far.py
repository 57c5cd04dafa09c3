"""A client far from the server, to be run by its path: `far.py watch|run|feed CONNECTION-FILE …`.

`watch FILE PROCESS` follows a process to its end; it prints `ready` at the first event. `run FILE ARGV…` runs
a command and captures its output. `feed FILE PROCESS SECONDS` writes numbered lines to its stdin and closes
it. Each prints at the end a line of JSON. Times are those of the monotonic clock, which all hosts here share.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from execzmq.api import aconnect
from execzmq.client.aio import AsyncClient
from execzmq.errors import ConnectionFailed, ExecZMQError, RequestTimeout, ServerLost
from execzmq.types.events import Output
from tests.chaos.commands import Record
from tests.chaos.witness import Watch
from tests.networks.commands import numbered

_PACE = 0.02
_PATIENCE = 100.0
"""Seconds for which a server that was lost is looked for."""


async def watch(file: str, process_id: str) -> dict[str, Any]:
    """Follow it; where the server is lost do what is to be done then: connect again, go on from the last."""
    watch, arrivals, lost = Watch(), list[float](), list[float]()
    while True:
        try:
            async with aconnect(file) as client:
                await _follow(client, process_id, watch, arrivals)
                return {**dataclasses.asdict(watch.end()), "arrivals": arrivals, "server_lost": lost}
        except ServerLost:
            lost.append(time.monotonic())
        except (ConnectionFailed, RequestTimeout):
            if not lost or time.monotonic() > lost[-1] + _PATIENCE:
                raise
            await asyncio.sleep(_PACE)


async def _follow(client: AsyncClient, process_id: str, watch: Watch, arrivals: list[float]) -> None:
    process = await client.attach(process_id)
    async for event in process.events(after_seq=watch.sight.last_seq):
        if not watch.sight.last_seq:
            _ready()
        watch.see(event)
        if isinstance(event, Output):
            arrivals.append(time.monotonic())


async def run(file: str, *argv: str) -> dict[str, Any]:
    """Run a command, and tell what came of it."""
    record = Record("stdout", "stderr")
    async with aconnect(file) as client:
        _ready()
        done = await client.run(argv)
    record.add("stdout", done.stdout)
    record.add("stderr", done.stderr)
    return {"exit_code": done.returncode, "streams": record.told(), "ended": time.monotonic()}


async def feed(file: str, process_id: str, seconds: str) -> dict[str, Any]:
    """Write to stdin at a steady pace, each piece when the one before has been taken."""
    record, lines, taken = Record("stdin"), numbered(), list[float]()
    async with aconnect(file) as client:
        process = await client.attach(process_id)
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            data = next(lines)
            await process.write(data)
            if not taken:
                _ready()
            taken.append(time.monotonic())
            record.add("stdin", data)
            await asyncio.sleep(_PACE)
        await process.close_stdin()
    return {"streams": record.told(), "taken": taken}


_CLIENTS: dict[str, Callable[..., Coroutine[Any, Any, dict[str, Any]]]] = {
    "watch": watch,
    "run": run,
    "feed": feed,
}


async def main(kind: str, words: list[str]) -> None:
    """Be one of the clients, at most until stdin ends."""
    asyncio.get_running_loop().add_reader(0, sys.exit)
    try:
        said = await _CLIENTS[kind](*words)
    except ExecZMQError as error:
        said = {"error": type(error).__name__, "message": str(error), "at": time.monotonic()}
    print(json.dumps(said), flush=True)


def _ready() -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
