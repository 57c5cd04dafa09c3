"""A keeper of the test's own with its client, and short ways to use both. Owns what it starts."""

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from execzmq.keeper.client import KeeperClient, Mode
from execzmq.keeper.handover import SpawnedProcess
from execzmq.keeper.launch import Launch, SpawnError

ENV = {b"PATH": os.fsencode(os.path.dirname(sys.executable)) + b":/usr/bin:/bin"}


UNKNOWN = -1
"""What `Harness.exit` returns where nobody knows the status."""


class Done(NamedTuple):
    """How a command ended, and all that it said."""

    status: int
    out: bytes
    err: bytes


def launch(*argv: str | bytes, process_id: str = "p", **more: Any) -> Launch:
    """Return a launch of these words with a small environment."""
    words = tuple(os.fsencode(word) for word in argv)
    return Launch(**{"process_id": process_id, "argv": words, "env": ENV, **more})


def shell(line: str, process_id: str = "p", **more: Any) -> Launch:
    """Return a launch of a shell line."""
    return launch("/bin/sh", "-c", line, process_id=process_id, **more)


def behind_gate(line: str, *, waits: bool = True, **more: Any) -> Launch:
    """Return a launch of a shell line that first waits at the gate, descriptor 7."""
    wait = "head -c 1 <&7 >/dev/null; " if waits else ""
    return shell(wait + line, passed={"gate": 7}, gate="gate", **more)


@contextlib.contextmanager
def open_gate() -> Iterator[int]:
    """Give a pipe that is open for reading and writing."""
    reader, writer = os.pipe()
    fd = os.open(f"/proc/self/fd/{reader}", os.O_RDWR | os.O_CLOEXEC)
    os.close(reader)
    os.close(writer)
    try:
        yield fd
    finally:
        os.close(fd)


async def read_until(fd: int, wanted: bytes) -> bytes:
    """Read a non-blocking descriptor until it has said something, or to its end."""
    return await _read(fd, lambda seen: wanted in seen)


async def read_to_end(fd: int) -> bytes:
    """Read a non-blocking pipe or terminal to its end."""
    return await _read(fd, lambda seen: False)


async def _read(fd: int, enough: Any) -> bytes:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    seen = bytearray()

    def take() -> None:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError:  # the end of a terminal
            data = b""
        seen.extend(data)
        if (not data or enough(seen)) and not ended.done():
            ended.set_result(None)

    loop.add_reader(fd, take)
    try:
        await ended
    finally:
        loop.remove_reader(fd)
    return bytes(seen)


class Harness:
    """A connected client, what it was told, and short ways to use it."""

    def __init__(self) -> None:
        self.client: KeeperClient
        self.found: dict[str, SpawnedProcess] = {}
        self.is_lost = False
        self._exits: dict[str, asyncio.Future[tuple[int, dict[str, float]]]] = {}
        self._ids = (f"r{n}" for n in itertools.count())

    async def connect(self, folder: Path, mode: Mode = "end") -> None:
        """Connect to the keeper of a folder, or start it."""
        self.client = await KeeperClient.connect_or_launch(
            folder, mode, on_process=self._on_process, on_exit=self._on_exit, on_lost=self._on_lost
        )

    async def exit(self, process_id: str) -> int:
        """Wait for the end of a command and return its status."""
        return (await self._exit_of(process_id))[0]

    async def run(self, wanted: Launch, fds: Mapping[str, int] | None = None) -> Done:
        """Start a command, read all that it says, and forget it."""
        wanted = wanted._replace(process_id=next(self._ids))
        process = await self.client.spawn(wanted, fds)
        try:
            out = await read_to_end(process.fds.get("pty", process.fds.get("stdout", -1)))
            err = await read_to_end(process.fds["stderr"]) if "stderr" in process.fds else b""
            status = await self.exit(wanted.process_id)
        finally:
            process.close()
        self.client.forget(wanted.process_id)
        return Done(os.waitstatus_to_exitcode(status), out, err)

    async def settle(self) -> None:
        """Wait until the keeper has done all that it was asked for."""
        self.client._farewells.flush()
        with pytest.raises(SpawnError):
            await self.client.release("nobody")

    async def reap(self) -> None:
        """Wait for the end of a keeper that this process started and another server has ended."""
        with contextlib.suppress(ChildProcessError):
            await asyncio.to_thread(os.waitpid, self.client.pid, 0)
        await self.client.aclose()

    def fd_count(self) -> int:
        """Count the keeper's descriptors."""
        return len(os.listdir(f"/proc/{self.client.pid}/fd"))

    def _exit_of(self, process_id: str) -> "asyncio.Future[tuple[int, dict[str, float]]]":
        if process_id not in self._exits:
            self._exits[process_id] = asyncio.get_running_loop().create_future()
        return self._exits[process_id]

    def _on_process(self, process: SpawnedProcess) -> None:
        self.found[process.process_id] = process

    def _on_exit(self, process_id: str, status: int | None, rusage: dict[str, float]) -> None:
        self._exit_of(process_id).set_result((UNKNOWN if status is None else status, rusage))

    def _on_lost(self) -> None:
        self.is_lost = True


@contextlib.asynccontextmanager
async def keeper(folder: Path, mode: Mode = "end") -> AsyncIterator[Harness]:
    """Have a keeper of one's own, which ends with all its commands."""
    harness = Harness()
    await harness.connect(folder, mode)
    try:
        yield harness
    finally:
        await harness.client.aclose()
        for process in harness.found.values():
            process.close()
