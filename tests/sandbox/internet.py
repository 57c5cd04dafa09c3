"""A sandbox with the internet, in a network that stands for a host's: says what is reached from inside."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from execzmq.keeper.client import KeeperClient
from execzmq.keeper.launch import Launch
from execzmq.keeper.namespaces import open_network, open_owner
from execzmq.sandbox import slirp
from tests.keeper.gates import Gate
from tests.support import wait_until

HOST = "10.99.0.2"
PORT = 8777
ENV = {b"PATH": b"/usr/bin:/bin"}

INSIDE = f"""
import socket
for address in ("{HOST}", "10.0.2.2", "127.0.0.1"):
    try:
        with socket.create_connection((address, {PORT}), 5) as peer:
            print(address, peer.recv(9).decode(), flush=True)
    except OSError as exc:
        print(address, type(exc).__name__, exc.errno, flush=True)
"""


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a server of the host, on all of its addresses."""
    writer.write(b"hello")
    writer.close()


async def start(keeper: KeeperClient, gate: Gate) -> None:
    """Start the companion as `slirp` says, and wait until the network is there."""
    table = Path(f"/proc/{gate.pid}/net/fib_trie")
    await asyncio.to_thread(wait_until, lambda: slirp.has_loopback(table.read_text()))
    network = open_network(gate.pidfd)
    ends, holds = os.pipe()
    ready, writes_ready = os.pipe()
    given = {"netns": network, "userns": open_owner(network), "exit": ends, "ready": writes_ready}
    launch = Launch(
        slirp.companion_of("p"),
        slirp.argv(slirp.find(), is_root=os.geteuid() == 0),
        env=ENV,
        passed=slirp.PASSED,
    )
    companion = await keeper.spawn(launch, given)
    keeper.hold("p", slirp.HELD, holds)
    for fd in (*given.values(), holds):
        os.close(fd)
    print("ready", await asyncio.to_thread(os.read, ready, 1), flush=True)
    os.close(ready)
    companion.close()


async def main() -> None:
    """Run the sandbox, then end the command: its companion ends too."""
    ends: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("p", slirp.companion_of("p"))}
    server = await asyncio.start_server(greet, "0.0.0.0", PORT)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        keeper = await KeeperClient.connect_or_launch(
            folder, "end", on_process=print, on_exit=lambda name, *_: ends[name].set(), on_lost=lambda: None
        )
        with Gate(sys.executable, "-c", INSIDE, options=["--disable-userns"]) as gate:
            (await keeper.spawn(Launch("p", (b"sleep", b"60"), env=ENV))).close()
            await start(keeper, gate)
            print(await asyncio.to_thread(gate.release), end="", flush=True)
        keeper.close_name("p", slirp.HELD)
        await ends[slirp.companion_of("p")].wait()
        print("companion ended", flush=True)
        await keeper.aclose()
    server.close()
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
