"""What execzmq costs beside plain subprocess: `make bench` holds each ratio to its bound.

In the suite the same measures run once and short, so that they work whenever somebody wants them; a busy
machine says nothing about a ratio, so none is judged there.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import execzmq
from execzmq.client.sync import Client
from tests.benchmarks import measures
from tests.benchmarks.measures import Ratio


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a default server of this test's own."""
    with execzmq.connect() as client:
        yield client
        client.shutdown()


@pytest.mark.bench
def test_run_true(client: Client) -> None:
    """At most 3 times `subprocess.run(["true"])` with pipes."""
    assert tell(measures.run_true(client, 400)).value <= 3.0


@pytest.mark.bench
def test_throughput(client: Client) -> None:
    """At least 0.4 of `os.read(262144)` from a 64 KiB pipe."""
    assert tell(measures.throughput(client, 9)).value >= 0.4


@pytest.mark.bench
def test_over_curve(client: Client, tmp_path: Path) -> None:
    """At least 2.5 times what codex's form carries over a plain websocket."""
    assert tell(measures.over_curve(client, tmp_path, 5)).value >= 2.5


@pytest.mark.bench
def test_at_once(client: Client) -> None:
    """At least 0.45 of the rate of `Popen`."""
    assert tell(measures.at_once(client, 15)).value >= 0.45


@pytest.mark.bench
def test_command_line(client: Client) -> None:
    """At most twice the time of importing asyncio, zmq.asyncio, msgpack and click."""
    assert tell(measures.command_line(15)).value <= 2.0


@pytest.mark.bench
def test_sandboxed_start(home_root: Path) -> None:
    """At most 1.3 of the bare bubblewrap with the same arguments, to the first byte of output."""
    with execzmq.local() as client:
        assert tell(measures.sandboxed(client, home_root / "ws", 150)).value <= 1.3


@pytest.mark.bench
def test_threads(client: Client) -> None:
    """Several threads of one client are no slower than one."""
    one, four = measures.from_threads(client, 1, 200), measures.from_threads(client, 4, 200)
    print(f"run true from threads: {one:.0f}/s from one, {four:.0f}/s from four")
    assert four >= one


@pytest.mark.timeout(60)
def test_the_measures_run(client: Client, home_root: Path) -> None:
    """Each of them, once."""
    for ratio in (
        measures.run_true(client, 5),
        measures.throughput(client, 1),
        measures.over_curve(client, home_root, 1),
        measures.at_once(client, 1),
        measures.command_line(1),
        measures.sandboxed(client, home_root / "ws", 2),
    ):
        assert tell(ratio).ours > 0


def tell(ratio: Ratio) -> Ratio:
    """Print a measure and return it."""
    print(ratio)
    return ratio
