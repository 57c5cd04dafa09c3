"""A program that watches one process of a server, to be run by its path: `watcher.py SERVER PROCESS`.

It prints `ready` when its first event has come, and at the end one line: bytes and sha256 of stdout, last
seq, bytes lost.
"""

import asyncio
import hashlib
import sys

from execzmq.api import aconnect
from execzmq.types.events import Gap, Output, last_seq_of


async def watch(name: str, process_id: str) -> None:
    """Follow the process to its end and tell what came."""
    digest, size, lost, seq = hashlib.sha256(), 0, 0, 0
    async with aconnect(name) as client:
        process = await client.attach(process_id)
        async for event in process.events():
            if not seq:
                print("ready", flush=True)
            seq = last_seq_of(event)
            if isinstance(event, Output) and event.stream == "stdout":
                digest.update(event.data)
                size += len(event.data)
            elif isinstance(event, Gap):
                lost += event.bytes
    print(size, digest.hexdigest(), seq, lost, flush=True)


if __name__ == "__main__":
    asyncio.run(watch(sys.argv[1], sys.argv[2]))
