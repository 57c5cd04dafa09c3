"""The backend of a client, opened at the first use: once, for all who need it, and told as it stands."""

import asyncio

import pytest

import execzmq
from execzmq.client.aio import AsyncClient
from execzmq.client.reaching import Reach
from execzmq.errors import ClientClosed, ConnectionFailed, InvalidState
from execzmq.types.backend import ExecBackend
from tests.client.clients import until
from tests.fakes import FakeBackend
from tests.servers import serving
from tests.support import wait_until


class Opener:
    """Opens backends when it is let; `errors` are raised first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.gate = asyncio.Event()
        self.begun = self.ended = 0
        self.backend = FakeBackend()

    async def __call__(self) -> ExecBackend:
        """Open one."""
        self.begun += 1
        try:
            await self.gate.wait()
            if self.errors:
                raise self.errors.pop(0)
            return self.backend
        finally:
            self.ended += 1


def watched(client: AsyncClient) -> list[str]:
    """Return the list that the states of a client come into."""
    states: list[str] = []
    client.watch_state(states.append)
    return states


async def test_nothing_is_opened_before_the_first_use() -> None:
    """Then once, and all who ask meanwhile wait for that."""
    opener = Opener()
    client = AsyncClient(Reach(opener))
    states = watched(client)
    assert (client.state, opener.begun) == ("idle", 0)
    with pytest.raises(InvalidState, match="its first use connects it"):
        _ = client.backend
    asked = asyncio.gather(client.processes(), client.info(), client.connect())
    await until(lambda: client.state == "connecting")
    opener.gate.set()
    assert (await asked)[0] == []
    assert (client.state, opener.begun) == ("connected", 1)
    await client.aclose()
    assert (client.state, opener.backend.calls) == ("closed", ["aclose"])
    await until(lambda: states == ["connecting", "connected", "closed"])


async def test_a_failure_is_told_to_all_and_the_next_use_tries_again() -> None:
    """The state says so until then."""
    opener = Opener(ConnectionFailed("nobody there"))
    opener.gate.set()
    async with AsyncClient(Reach(opener)) as client:
        results = await asyncio.gather(client.processes(), client.info(), return_exceptions=True)
        assert [str(result) for result in results] == ["nobody there"] * 2
        assert (client.state, opener.begun) == ("failed", 1)
        assert await client.processes() == []
        assert (client.state, opener.begun) == ("connected", 2)


async def test_a_loss_is_seen_and_told() -> None:
    """As soon as the backend notices it; whoever watches no more is told nothing."""
    backend = FakeBackend()
    async with AsyncClient(backend) as client:
        states = watched(client)
        others: list[str] = []
        stop = client.watch_state(others.append)
        for is_up in (False, False, True):
            backend.is_up = is_up
            backend.changed()
        assert client.state == "connected"
        await until(lambda: states == ["lost", "connected"])
        stop()
        stop()
        backend.is_up = False
        backend.changed()
        await until(lambda: states[2:] == ["lost"])
        assert others == ["lost", "connected"]


async def test_cancelled_by_all_it_is_not_opened() -> None:
    """One who is cancelled leaves it to the others; the last one leaves nothing."""
    opener = Opener()
    client = AsyncClient(Reach(opener))
    one, two = asyncio.create_task(client.info()), asyncio.create_task(client.info())
    await until(lambda: opener.begun == 1)
    one.cancel()
    await asyncio.wait((one,))
    assert (client.state, opener.ended) == ("connecting", 0)
    two.cancel()
    await asyncio.wait((two,))
    assert (client.state, opener.ended) == ("idle", 1)
    await client.aclose()


async def test_closed_while_it_connects() -> None:
    """Who waits is told; nothing is left."""
    opener = Opener()
    client = AsyncClient(Reach(opener))
    waiting = asyncio.create_task(client.info())
    await until(lambda: opener.begun == 1)
    await client.aclose()
    with pytest.raises(ClientClosed, match="while it connected"):
        await waiting
    with pytest.raises(ClientClosed):
        await client.info()
    assert (client.state, opener.ended) == ("closed", 1)


def _state(client: execzmq.Client) -> str:
    return client.state


@pytest.mark.slow
def test_a_real_server_that_goes_and_comes() -> None:
    """A client that was never used leaves no trace there; the loss of a server is noticed without a call."""
    with serving("t") as server:
        client = execzmq.connect("t")
        states: list[str] = []
        client.watch_state(states.append)
        assert _state(client) == "idle"
        client.connect()
        assert _state(client) == "connected"
        server.kill()
        wait_until(lambda: client.state == "lost")
        client.close()
        assert _state(client) == "closed"
    assert states[:3] == ["connecting", "connected", "lost"]
