"""Own the measures: each interleaves execzmq with its peer in one run and returns a ratio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import execzmq
from execzmq.client.sync import Client
from tests.benchmarks import bare, websocket

MEGABYTES = 300
CURVE_MEGABYTES = 100
AT_ONCE = 100
IMPORTS = "import asyncio, zmq.asyncio, msgpack, click"


@dataclass(frozen=True)
class Ratio:
    """What was measured: ours and the peer's, in the same unit, and ours divided by the peer's."""

    name: str
    ours: float
    peer: float
    unit: str

    @property
    def value(self) -> float:
        """Return ours divided by the peer's."""
        return self.ours / self.peer

    def __str__(self) -> str:
        ours, peer = f"{self.ours:.4g} {self.unit}", f"{self.peer:.4g} {self.unit}"
        return f"{self.name}: {ours}, peer {peer}, ratio {self.value:.2f}"


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _interleaved(ours: Callable[[], object], peer: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median seconds of both, measured in turns."""
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def run_true(client: Client, rounds: int) -> Ratio:
    """`run(["true"])` on a warm client against `subprocess.run` with pipes."""
    for _ in range(10):
        client.run(["true"])
    ours, peer = _interleaved(
        lambda: client.run(["true"]),
        lambda: subprocess.run(["true"], capture_output=True, check=False),
        rounds,
    )
    return Ratio("run true", ours * 1e3, peer * 1e3, "ms")


def _read_all(client: Client, command: list[str], size: int) -> None:
    process = client.start(command, backpressure="pause")
    assert sum(len(chunk.data) for chunk in process.output() if isinstance(chunk, execzmq.Output)) == size


def throughput(client: Client, rounds: int) -> Ratio:
    """One reader of 300 MB against `os.read(262144)` from a 64 KiB pipe."""
    command = ["head", "-c", f"{MEGABYTES}M", "/dev/zero"]
    size = MEGABYTES << 20

    def peer() -> None:
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            fd, left = process.stdout.fileno(), size
            while data := os.read(fd, 262144):
                left -= len(data)
            assert left == 0

    seconds, peer_seconds = _interleaved(partial(_read_all, client, command, size), peer, rounds)
    return Ratio("300 MB", MEGABYTES / seconds, MEGABYTES / peer_seconds, "MiB/s")


def over_curve(client: Client, folder: Path, rounds: int) -> Ratio:
    """One reader of 100 MB over tcp with CURVE, against the same as codex's exec-server sends it."""
    command = ["head", "-c", f"{CURVE_MEGABYTES}M", "/dev/zero"]
    size = CURVE_MEGABYTES << 20
    client.share(folder / "curve.json", role="owner")

    def peer() -> None:
        assert asyncio.run(websocket.received(port, command)) == size

    with execzmq.connect(str(folder / "curve.json")) as guest, websocket.serving() as port:
        ours = partial(_read_all, guest, command, size)
        seconds, peer_seconds = _interleaved(ours, peer, rounds)
    return Ratio("100 MB over CURVE", CURVE_MEGABYTES / seconds, CURVE_MEGABYTES / peer_seconds, "MiB/s")


def at_once(client: Client, rounds: int) -> Ratio:
    """100 `true` started at once and waited for, against as many `Popen`."""

    async def together() -> None:
        import asyncio

        async def one() -> None:
            process = await client.aio.start(["true"])
            await process.wait(closed=True)

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    def ours() -> None:
        client.portal.call(together())

    def peer() -> None:
        processes = [
            subprocess.Popen(["true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(AT_ONCE)
        ]
        for process in processes:
            process.communicate()

    seconds, peer_seconds = _interleaved(ours, peer, rounds)
    return Ratio("100 true at once", AT_ONCE / seconds, AT_ONCE / peer_seconds, "1/s")


def command_line(rounds: int) -> Ratio:
    """`execzmq run -- true` with a warm server against the bare imports of its libraries."""
    script = os.path.join(os.path.dirname(sys.executable), "execzmq")
    ours, peer = _interleaved(
        lambda: subprocess.run([script, "run", "--", "true"], check=True),
        lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True),
        rounds,
    )
    return Ratio("execzmq run -- true", ours * 1e3, peer * 1e3, "ms")


def sandboxed(client: Client, folder: Path, rounds: int) -> Ratio:
    """From the ask for a sandboxed `echo` to its first byte, against the same bubblewrap by subprocess."""
    folder.mkdir(exist_ok=True)
    asked: dict[str, Any] = {"sandbox": "workspace-write", "workspace_roots": [folder], "cwd": folder}

    def ours() -> float:
        begin = time.perf_counter()
        process = client.start(["echo", "x"], **asked)
        next(chunk for chunk in process.output() if isinstance(chunk, execzmq.Output))
        seconds = time.perf_counter() - begin
        process.wait(closed=True)
        return seconds

    for _ in range(3):
        ours()
    explained = client.explain(["echo", "x"], **asked)
    pairs = [(ours(), bare.first_byte(explained)) for _ in range(rounds)]
    own, peer = (statistics.median(some) * 1e3 for some in zip(*pairs, strict=True))
    for path in folder.iterdir():  # what the bare one leaves, if nobody has removed it
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()
    return Ratio("sandboxed start", own, peer, "ms")


def from_threads(client: Client, threads: int, rounds: int) -> float:
    """Return `run(["true"])` per second from several threads of one client."""
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        list(pool.map(lambda _: client.run(["true"]), range(rounds)))
        return rounds / (time.perf_counter() - begin)
