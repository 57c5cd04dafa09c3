"""A real sandbox that waits at its gate, and a program that has a listener placed in it.

The program runs as another user too, who may be able to read no more than the keeper: standard library only.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType

from execzmq.keeper.client import KeeperClient
from execzmq.keeper.launch import Launch

BWRAP = "/usr/bin/bwrap"
PORT = 3128

# What runs inside: both of its loopback addresses lead to the listener, another port of it to nobody.
INSIDE = f"""
import signal
import socket
for address in ("127.0.0.1", "::1"):
    with socket.create_connection((address, {PORT})) as peer:
        print(peer.recv(99).decode(), flush=True)
try:
    socket.create_connection(("127.0.0.1", {PORT + 1}))
except OSError as exc:
    print(type(exc).__name__, flush=True)
"""


class Gate:
    """A sandbox whose command waits for its release; `with` it.

    Attributes:
        pid: the first process inside.
        pidfd: a descriptor of that.
    """

    def __init__(self, *command: str, options: Sequence[str] = ()) -> None:
        status, their_status = os.pipe()
        their_gate, self._gate = os.pipe()
        argv = [BWRAP, "--unshare-user", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL", *options]
        argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        argv += ["--json-status-fd", str(their_status), "--block-fd", str(their_gate), "--", *command]
        self._process = subprocess.Popen(
            argv, pass_fds=(their_status, their_gate), stdout=subprocess.PIPE, text=True
        )
        os.close(their_status)
        os.close(their_gate)
        with open(status, encoding="ascii") as file:
            self.pid = int(json.loads(file.readline())["child-pid"])
        self.pidfd = os.pidfd_open(self.pid)

    def release(self) -> str:
        """Let the command run, and return what it says."""
        os.write(self._gate, b"G")
        return self._process.communicate()[0]

    def end(self) -> None:
        """End everything inside."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self._process.communicate()

    def __enter__(self) -> "Gate":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self.end()
        os.close(self._gate)
        os.close(self.pidfd)


def _answer(listener: socket.socket) -> None:
    listener.setblocking(True)
    for _ in range(2):
        peer, _ = listener.accept()
        with peer:
            peer.send(b"reached")


async def main(options: Sequence[str]) -> None:
    """Place a listener in a sandbox with these options, and print what its command says of it."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        Gate(sys.executable, "-c", INSIDE, options=options) as gate,
    ):
        keeper = await KeeperClient.connect_or_launch(
            folder, "end", on_process=print, on_exit=lambda *end: None, on_lost=lambda: None
        )
        (await keeper.spawn(Launch("p", (b"sleep", b"60"), env={b"PATH": b"/usr/bin:/bin"}))).close()
        with socket.socket(fileno=await keeper.listen("p", gate.pidfd, PORT)) as listener:
            said, _ = await asyncio.gather(
                asyncio.to_thread(gate.release), asyncio.to_thread(_answer, listener)
            )
        await keeper.aclose()
    print(said, end="")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
