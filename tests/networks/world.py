"""Own a server on one host and clients on others: they have connection files of shares.

The way between them can be cut, lossy or slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from execzmq import connection
from execzmq.client.aio import AsyncClient
from tests import servers
from tests.networks import commands, far, hosts
from tests.networks.hosts import Host
from tests.networks.links import Link
from tests.servers import ServerProcess
from tests.support import REPOSITORY, program_env

MakeLink = Callable[[Host, Host, int], Link]

_NAME = "net"


class Program:
    """A program on some host that says `ready`, and at its end one line of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def begin(cls, host: Host, path: str, *words: str) -> Program:
        """Start one; it may not be ready yet."""
        process = await asyncio.create_subprocess_exec(
            *host.enter,
            sys.executable,
            path,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=program_env(),
            limit=1 << 22,
        )
        return cls(process)

    async def ready(self) -> None:
        """Wait until it says so."""
        line = await self._line()
        assert line == b"ready\n", line

    async def said(self) -> dict[str, Any]:
        """Return what it says at its end."""
        answer: dict[str, Any] = json.loads(await self._line())
        return answer

    async def close(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


@dataclasses.dataclass
class Cut:
    """When a link was cut and when healed, by the monotonic clock."""

    begun: float
    healed: float = math.inf


class Outpost:
    """A host with clients, its link, and the connection files that lead over it.

    Args:
        folder: for the files.
        client: makes the shares.
        version: of IP.

    Attributes:
        file: what all clients are given; `None` = each has a file of its own.
    """

    def __init__(self, link: Link, folder: Path, client: AsyncClient, version: int) -> None:
        self.link = link
        self.file: Path | None = None
        self._folder = folder
        self._client = client
        self._version = version
        self._files = itertools.count(1)
        self._programs: list[Program] = []

    async def watch(self, process_id: str) -> Program:
        """Let an observer follow a process, of which it has seen the first event."""
        return await self._start("watch", process_id, role="observer", processes=[process_id])

    async def run(self, argv: Sequence[str]) -> Program:
        """Let an owner run a command."""
        return await self._start("run", *argv, role="owner")

    async def feed(self, process_id: str, seconds: float) -> Program:
        """Let an operator write to a process, whose first line has been taken."""
        return await self._start("feed", process_id, str(seconds), role="operator", processes=[process_id])

    @contextlib.asynccontextmanager
    async def cut(self, seconds: float, *, silently: bool = False) -> AsyncIterator[Cut]:
        """Cut it off for that long, and for as long as the block takes; see `Link.silence`."""
        sever, mend = (self.link.silence, self.link.speak) if silently else (self.link.cut, self.link.heal)
        await asyncio.to_thread(sever)
        cut = Cut(time.monotonic())
        yield cut
        await asyncio.sleep(cut.begun + seconds - time.monotonic())
        await asyncio.to_thread(mend)
        cut.healed = time.monotonic()

    async def _start(self, kind: str, *words: str, **share: Any) -> Program:
        """Start a client; in a file of its own is the address that the server has from here."""
        file = self.file or await self._shared(**share)
        return await self._begin(far.__file__, kind, str(file), *words)

    async def _shared(self, **share: Any) -> Path:
        file = self._folder / f"{next(self._files)}.json"
        await self._client.share(file, **share)
        info = connection.load(file)
        connection.write_connection_file(file, dataclasses.replace(info, ip=self.link.address(self._version)))
        return file

    async def _begin(self, path: str, *words: str) -> Program:
        """Start a program and wait until it is ready."""
        program = await Program.begin(self.link.far, path, *words)
        self._programs.append(program)
        await program.ready()
        return program

    async def close(self) -> None:
        """End its programs and its link."""
        for program in self._programs:
            await program.close()
        self.link.close()


class World:
    """A server, a client beside it, and outposts.

    Attributes:
        server: the one that lives.
        client: on the server's machine, whom no cut concerns.
        outposts: each on a host of its own.
    """

    def __init__(self, folder: Path, near: Host) -> None:
        self.folder = folder
        self.server: ServerProcess
        self.client: AsyncClient
        self.outposts: list[Outpost] = []
        self._near = near

    def command(self, kind: str, name: str, *words: str) -> list[str]:
        """Return the command line of one of `commands`."""
        argv = [sys.executable, commands.__file__, kind, str(self.folder / name), *words]
        return ["env", f"PYTHONPATH={REPOSITORY}", *argv]

    def told(self, name: str) -> dict[str, Any]:
        """Return what the command with that result file says itself."""
        told: dict[str, Any] = json.loads((self.folder / name).read_text())
        return told

    def start_server(self) -> None:
        """Start a server on the near host; one that was killed before is followed by it."""
        with mock.patch.object(servers, "SERVE", (*self._near.enter, *servers.SERVE)):
            self.server = ServerProcess(_NAME, ("--ip", "::"))


@contextlib.asynccontextmanager
async def world(
    folder: Path, *, outposts: int = 1, make_link: MakeLink = Link, version: int = 4
) -> AsyncIterator[World]:
    """Make hosts, a server on the first, and `outposts` on the others; in the end all is gone.

    Args:
        version: of IP.
    """
    hidden = [connection.state_folder(_NAME), connection.socket_folder(_NAME)]
    for one in hidden:
        connection.private_folder(one)
    async with contextlib.AsyncExitStack() as stack:
        near, *others = stack.enter_context(hosts.made(outposts, hidden))
        made = World(folder, near)
        await asyncio.to_thread(made.start_server)
        stack.callback(lambda: made.server.close())
        made.client = await stack.enter_async_context(made.server.aclient())
        for number, host in enumerate(others, 1):
            link = make_link(near, host, number)
            made.outposts.append(Outpost(link, folder / f"far{number}", made.client, version))
            stack.push_async_callback(made.outposts[-1].close)
        yield made
