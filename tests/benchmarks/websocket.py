"""Output as codex's exec-server sends it: pieces of 8 KiB, base64 in JSON, over a plain websocket.

Run as a program it is the server: it prints its port, and runs one command for each connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

PIECE = 8192


class Exec(WebSocketHandler):
    """Runs the command that it is told and sends what it says."""

    async def on_message(self, message: str | bytes) -> None:
        """Run a command to its end."""
        argv = json.loads(message)["params"]["argv"]
        process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
        assert process.stdout is not None
        seq = 0
        while data := await process.stdout.read(PIECE):
            seq += 1
            chunk = base64.b64encode(data).decode()
            await self._tell("process/output", seq=seq, stream="stdout", chunk=chunk)
        await self._tell("process/exited", seq=seq + 1, exitCode=await process.wait())

    async def _tell(self, method: str, **params: object) -> None:
        await self.write_message(json.dumps({"method": method, "params": {"processId": "p", **params}}))


async def received(port: int, argv: Sequence[str]) -> int:
    """Let a command run and return how many bytes it has said."""
    connection = await websocket_connect(f"ws://127.0.0.1:{port}/")
    await connection.write_message(json.dumps({"method": "process/start", "params": {"argv": list(argv)}}))
    count = 0
    while (message := await connection.read_message()) is not None:
        said = json.loads(message)
        if said["method"] == "process/exited":
            connection.close()  # the loop ends when it is
        else:
            count += len(base64.b64decode(said["params"]["chunk"]))
    return count


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """Run the server meanwhile; yield its port."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        program.communicate()


async def main() -> None:
    """Serve until stdin ends."""
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/", Exec)]))
    server.add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
