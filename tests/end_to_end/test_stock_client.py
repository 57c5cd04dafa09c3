"""A stock Jupyter client finds a server alive and cannot make it do anything."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import ServerProcess, serving
from tests.support import deadline, wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports; none of them is ours to mend
    from jupyter_client.blocking.client import BlockingKernelClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def server(no_leaks: None) -> Iterator[ServerProcess]:
    """A server in a process of its own."""
    with serving() as server:
        yield server


@pytest.fixture
def stock(server: ServerProcess) -> Iterator[Any]:
    """A stock client that was given the connection file and told of msgpack."""
    client = BlockingKernelClient()
    client.load_connection_file(str(server.state / "connection.json"))
    client.session.packer = client.session.unpacker = "msgpack"
    client.start_channels()
    yield client
    client.stop_channels()
    client.context.destroy(linger=0)


def answer(stock: Any, channel: str, msg_id: str) -> dict[str, Any]:
    """Return the content of the reply to a request."""
    limit = deadline(10)
    while True:
        reply = getattr(stock, f"{channel}_channel").get_msg(timeout=limit.left())
        if reply["parent_header"].get("msg_id") == msg_id:
            content: dict[str, Any] = reply["content"]
            return content


def test_kernel_info_and_a_beating_heart(stock: Any, server: ServerProcess) -> None:
    """What every Jupyter front end asks first."""
    content = answer(stock, "shell", stock.kernel_info())
    assert (content["status"], content["implementation"]) == ("ok", "execzmq")
    assert content["protocol_version"] == "5.4"
    assert content["execzmq"]["epoch"] == server.info.epoch
    wait_until(stock.hb_channel.is_beating, 10)


def test_nothing_is_executed_and_nothing_shut_down(stock: Any, server: ServerProcess) -> None:
    """It is told by an error, not by silence, and the server runs on."""
    content = answer(stock, "shell", stock.execute("1 + 1"))
    assert (content["status"], content["ename"]) == ("error", "UnknownMethod")
    content = answer(stock, "control", stock.shutdown())
    assert (content["status"], content["ename"]) == ("error", "InvalidRequest")
    assert answer(stock, "shell", stock.kernel_info())["status"] == "ok"
    assert server.process.poll() is None
