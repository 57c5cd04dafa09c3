"""A server in a process of its own, and what one wants to know of that process."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from execzmq import connection
from execzmq.client.aio import AsyncClient
from execzmq.client.remote import RemoteBackend
from execzmq.client.sync import Client
from execzmq.connection import ConnectionInfo
from execzmq.settings import MIB
from tests.support import deadline

MOST_MEMORY = 100 * MIB
"""Bytes that a server may have resident, whatever its clients and commands do."""

SERVE = (sys.executable, "-X", "faulthandler", "-m", "execzmq", "serve")
"""The command line of a server, which tells where it is when SIGABRT ends it."""


class ServerProcess:
    """A server that runs: `execzmq serve --name NAME`, its log in a file."""

    def __init__(self, name: str, options: tuple[str, ...], inherited: tuple[int, ...] = ()) -> None:
        self.name = name
        self.state = connection.state_folder(name)
        self.log = Path(os.environ["HOME"]) / f"{name}.log"
        ready, told = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*SERVE, "--name", name, *options, "--ready-fd", str(told)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(told, *inherited),
                start_new_session=True,
            )
        os.close(told)
        try:
            self._wait_ready(ready)
        except BaseException:
            self.kill()
            raise

    def _wait_ready(self, ready: int) -> None:
        with open(ready, "rb") as file:
            assert select.select([file], [], [], deadline(30).left())[0], "the server is not ready"
            assert file.readline() == b"ready\n", self.log.read_text()

    @property
    def pid(self) -> int:
        """Return the pid of the server itself."""
        return self.process.pid

    @property
    def info(self) -> ConnectionInfo:
        """Return what its connection file says."""
        return connection.load(self.state / "connection.json")

    @contextlib.asynccontextmanager
    async def backend(self) -> AsyncIterator[RemoteBackend]:
        """Connect the inner seam on this loop."""
        backend = await RemoteBackend.open(self.info, 20.0)
        try:
            yield backend
        finally:
            await backend.aclose()

    @contextlib.asynccontextmanager
    async def aclient(self) -> AsyncIterator[AsyncClient]:
        """Connect an async client."""
        async with AsyncClient(await RemoteBackend.open(self.info, 20.0)) as client:
            yield client

    def client(self) -> Client:
        """Connect a blocking client; close it."""

        async def connect() -> AsyncClient:
            return AsyncClient(await RemoteBackend.open(self.info, 20.0))

        return Client.open(connect)

    def peak_memory(self) -> int:
        """Return the most bytes that were resident so far."""
        return self._status("VmHWM") * 1024

    def memory(self) -> int:
        """Return the bytes that are resident now."""
        return self._status("VmRSS") * 1024

    def descriptors(self) -> int:
        """Return how many descriptors the server has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def signal(self, signo: signal.Signals) -> None:
        """Signal the server."""
        self.process.send_signal(signo)

    def wait(self, seconds: float = 20.0) -> int:
        """Wait for its end; return its status, as `subprocess` has it."""
        return self.process.wait(deadline(seconds).left())

    def kill(self) -> None:
        """Kill it, as a crash would; its keeper and its processes live on."""
        self.signal(signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """End it and its processes; idempotent."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.wait(15.0)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGABRT)  # its log then tells where it hangs
                self.process.wait()
                raise AssertionError(f"the server does not end: {self.log.read_text()[-4000:]}") from None

    def _status(self, name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{self.pid}/status").read_text(), re.M)
        assert found is not None
        return int(found[1])


@contextlib.contextmanager
def serving(name: str = "t", *options: str) -> Iterator[ServerProcess]:
    """Run a server meanwhile; its end ends its processes."""
    server = ServerProcess(name, options)
    try:
        yield server
    finally:
        server.close()
