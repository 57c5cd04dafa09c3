"""A way to a server that can be cut: Unix sockets that pass bytes on to those of the server.

Run by its path: `relay.py FOLDER TARGET…` listens at `FOLDER/<name>` for each target. It takes one word a
line on stdin and answers `ok`: `stall` passes nothing on, `drop` ends all connections and takes none, `heal`.
"""

import asyncio
import contextlib
import os
import sys

_PIECE = 65536


class Relay:
    """All connections."""

    def __init__(self) -> None:
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection, until either end closes it."""
        self._writers.add(writer)
        try:
            if self._refuses:
                return
            inner, outer = await asyncio.open_unix_connection(target)
            self._writers.add(outer)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(reader, outer))
                    both.create_task(self._pass(inner, writer))
            finally:
                self._close(outer)
        except* (OSError, EOFError):
            pass
        finally:
            self._close(writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_PIECE):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        raise EOFError

    def _close(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()

    def do(self, word: str) -> None:
        """Obey."""
        self._refuses = word == "drop"
        if word == "stall":
            self._flows.clear()
        else:
            self._flows.set()
        for writer in tuple(self._writers) if word == "drop" else ():
            with contextlib.suppress(RuntimeError):
                writer.transport.abort()


async def main(folder: str, targets: list[str]) -> None:
    """Serve until stdin ends."""
    relay = Relay()
    loop = asyncio.get_running_loop()
    for target in targets:

        async def accept(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: str = target
        ) -> None:
            await relay.serve(to, reader, writer)

        await asyncio.start_unix_server(accept, os.path.join(folder, os.path.basename(target)))
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        relay.do(line.strip())
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
