"""The connection of a client session: who is there, what became of a request, what is left at the end."""

import asyncio
import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from execzmq import settings
from execzmq.client import core, cursors
from execzmq.client.core import Connection
from execzmq.errors import (
    AuthenticationFailed,
    ClientClosed,
    ConnectionFailed,
    LimitExceeded,
    ProcessNotFound,
    RequestTimeout,
    ServerLost,
)
from tests.client.clients import until
from tests.client.fake_server import FakeServer, connected, connection_info
from tests.support import child, ms


async def test_open_learns_the_epoch(short_tmp: Path) -> None:
    """A new client has asked for the server's epoch and holds a lease before it is used."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        assert connection.epoch == server.epoch
        [lease] = server.asked("lease")
        assert 0 < lease.content["seconds"] <= settings.LEASE


async def test_call_carries_the_epoch_where_it_matters(short_tmp: Path) -> None:
    """What is meant for one life of a server says for which."""
    server = FakeServer(short_tmp)
    server.handlers["signal"] = server.handlers["forget"] = lambda _: {}
    async with connected(server) as connection:
        await connection.call("signal", {"process_id": "p", "signal": 2})
        await connection.call("forget", {"process_id": "p"})
    assert server.asked("signal")[0].content["epoch"] == server.epoch
    assert "epoch" not in server.asked("forget")[0].content


async def test_error_reply_is_raised(short_tmp: Path) -> None:
    """The error that a reply names is raised as that class, with its details."""
    server = FakeServer(short_tmp)
    server.handlers["describe"] = lambda _: ProcessNotFound("there is no p", process_id="p")
    async with connected(server) as connection:
        with pytest.raises(ProcessNotFound, match="there is no p") as caught:
            await connection.call("describe", {"id_or_name": "p"})
    assert caught.value.process_id == "p"


async def test_replies_come_in_any_order(short_tmp: Path) -> None:
    """A request that waits holds up no other one."""
    server = FakeServer(short_tmp)
    server.handlers["forget"] = lambda _: {}
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("list", {}))
        await connection.call("forget", {"process_id": "p"})
        assert not waiting.done()
        waiting.cancel()


async def test_lost_reply_is_asked_for_again_c64(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without an answer is repeated under the same id, so that the work is done once."""
    monkeypatch.setattr("execzmq.protocol.calls.Calls.__init__.__defaults__", (ms(50), settings.REPLY_KEPT))
    server = FakeServer(short_tmp)
    server.handlers["forget"] = lambda _: {} if len(server.asked("forget")) > 1 else None
    async with connected(server) as connection:
        await connection.call("forget", {"process_id": "p"})
    first, second = server.asked("forget")
    assert first.msg_id == second.msg_id


async def test_silent_server_is_a_timeout_that_tells_of_the_heart_c59(short_tmp: Path) -> None:
    """A busy server is neither a lost one nor waited for without end."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        with pytest.raises(RequestTimeout, match="heart beats") as caught:
            await connection.call("list", {}, timeout=ms(50))
        assert caught.value.beats is True


async def test_stopped_server_is_told_from_a_busy_one_c59(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the heart does not beat either, the error says so."""
    monkeypatch.setattr(core, "_HEART", ms(50))
    server = FakeServer(short_tmp, heart=False)
    async with connected(server) as connection:
        with pytest.raises(RequestTimeout, match="stopped"):
            await connection.call("list", {}, timeout=ms(50))


async def test_dead_server_is_lost_in_time_c59(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection every waiting call ends within the stated time, and so does each later one."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(100))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("list", {}))
        await asyncio.sleep(0)
        server.close()
        with pytest.raises(ServerLost):
            await waiting
        with pytest.raises(ServerLost):
            await connection.call("list", {})


async def test_call_after_an_outage_waits_for_a_server_that_is_back(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up once, a server that is back is waited for; without one it is said that nothing was asked."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(200))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("signal", {"process_id": "p", "signal": 2}))
        await server.until(lambda: bool(server.asked("signal")))
        server.close()
        await until(lambda: not connection.is_up)
        unsent = asyncio.ensure_future(connection.call("forget", {"process_id": "p"}))
        with pytest.raises(ServerLost, match="whether signal was done is not known"):
            await waiting
        monkeypatch.setattr(core, "SERVER_GONE", ms(10_000))
        for call in (unsent, connection.call("forget", {"process_id": "p"})):
            with pytest.raises(ServerLost, match="nothing was asked"):
                await call
        with closing(FakeServer(short_tmp)) as again:
            again.handlers["forget"] = lambda _: {}
            await connection.call("forget", {"process_id": "p"})


async def test_server_that_listens_and_does_not_answer_is_lost_again(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call after an outage waits for the stated time and no longer."""
    monkeypatch.setattr(core, "SERVER_GONE", ms(50))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        server.close()
        with pytest.raises(ServerLost):
            await connection.call("forget", {"process_id": "p"})
        path = server.info.socket_path("shell")
        assert path is not None
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(path)
            mute.listen()
            for _ in range(2):
                with pytest.raises(ServerLost, match="nothing was asked"):
                    await connection.call("forget", {"process_id": "p"})


async def test_reconnect_to_the_same_life(short_tmp: Path) -> None:
    """After a lost connection the requests that wait are sent again under their ids."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("forget", {"process_id": "p"}))
        await server.until(lambda: bool(server.asked("forget")))
        server.close()
        with closing(FakeServer(short_tmp, epoch=server.epoch)) as again:
            again.handlers["forget"] = lambda _: {}
            await waiting
            assert again.asked("forget")[0].msg_id == server.asked("forget")[0].msg_id


async def test_reconnect_of_one_channel(short_tmp: Path) -> None:
    """Where one connection breaks alone, what any server answers rightly is sent again at once, no signal."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        writing = asyncio.ensure_future(
            connection.call("write", {"process_id": "p", "offset": 0, "end": True}, [b"x"], wait=60.0)
        )
        signalling = asyncio.ensure_future(connection.call("signal", {"process_id": "p", "signal": 2}))
        await server.until(lambda: bool(server.asked("write") and server.asked("signal")))
        server.handlers["write"] = lambda _: {"offset": 1}
        server.break_off("stdin")
        await writing
        first, second = server.asked("write")
        assert first.msg_id == second.msg_id
        server.break_off("control")
        connection.renew()
        await server.until(lambda: len(server.asked("lease")) > 1)
        assert len(server.asked("signal")) == 1
        signalling.cancel()


async def test_new_life_is_recognized_c59(short_tmp: Path) -> None:
    """A new server is not taken for the old one: what it cannot answer is lost, the rest asked anew."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        signalling = asyncio.ensure_future(connection.call("signal", {"process_id": "p", "signal": 2}))
        listing = asyncio.ensure_future(connection.call("list", {}))
        starting = asyncio.ensure_future(connection.call("start", {"process_id": "p"}))
        await server.until(lambda: len(server.requests) >= 5)
        server.close()
        with closing(FakeServer(short_tmp)) as new:
            new.handlers["list"] = lambda _: {"processes": []}
            new.handlers["start"] = lambda _: {"process_id": "p", "instance": 1, "pid": 1, "repeated": True}
            with pytest.raises(ServerLost, match="signal"):
                await signalling
            await asyncio.gather(listing, starting)
            assert connection.epoch == new.epoch
            assert new.asked("start")[0].content["epoch"] == new.epoch
            assert not new.asked("signal")
            methods = [message.msg_type for message in new.requests]
            assert methods[0] == "lease_request"


async def test_wrong_key_is_told_from_a_dead_server(short_tmp: Path) -> None:
    """A server that lives and does not answer has most likely another key; the error does not show it."""
    with closing(FakeServer(short_tmp, key="right")):
        connection = Connection(connection_info(short_tmp, key="wrong-secret"))
        with pytest.raises(AuthenticationFailed, match="key") as caught:
            await connection.open(ms(200))
        await connection.aclose()
        assert "wrong-secret" not in str(caught.value) + repr(connection.info)


async def test_refused_client_is_told_for_good(short_tmp: Path) -> None:
    """A server that does not let this client in is not waited for, now or later."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("list", {}))
        await asyncio.sleep(0)
        connection._on_state("shell", "refused")
        with pytest.raises(AuthenticationFailed, match="refuses"):
            await waiting
        with pytest.raises(AuthenticationFailed, match="refuses"):
            await connection.call("list", {})


async def test_refused_lease_is_told_and_not_repeated(short_tmp: Path) -> None:
    """A server that gives no lease is not asked over and over."""
    server = FakeServer(short_tmp)
    server.handlers["lease"] = lambda _: LimitExceeded("too many sessions", limit=1, value=2)
    del server.handlers["kernel_info"]
    with pytest.raises(LimitExceeded, match="too many"):
        async with connected(server):
            pass
    assert len(server.asked("lease")) == 1


async def test_address_that_is_none(short_tmp: Path) -> None:
    """Where no socket can be had the error is ours, and none of the others stays open."""
    with pytest.raises(ConnectionFailed, match="no socket"):
        Connection(connection_info(short_tmp / ("long" * 40)))


@pytest.mark.slow
async def test_no_wake_up_is_lost_c53(short_tmp: Path) -> None:
    """Very many requests at once are all answered, and so is a lone one after them."""
    server = FakeServer(short_tmp)
    server.handlers["forget"] = lambda _: {}
    async with connected(server) as one, connected(server) as other:
        calls = [
            client.call("forget", {"process_id": str(at)}) for client in (one, other) for at in range(1500)
        ]
        assert len(await asyncio.gather(*calls)) == 3000
        for client in (one, other):
            async with asyncio.timeout(ms(500)):
                await client.call("forget", {"process_id": "lone"})
        assert one.statistics()["calls"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("end", ["await client.aclose()", "pass"])
def test_script_with_a_dead_server_ends_c54(short_tmp: Path, end: str) -> None:
    """A program whose requests cannot leave ends soon, whether it closes its client or not."""
    code = f"""
import asyncio
from execzmq.client.core import Connection
from execzmq.connection import ConnectionInfo
async def main():
    client = Connection(ConnectionInfo("ipc", {str(short_tmp / "s")!r}, 1, 2, 3, 4, 5, key="k"))
    client.request("list", {{}}, print)
    {end}
asyncio.run(main())
"""
    subprocess.run(child(code), check=True, timeout=ms(10_000), stderr=subprocess.DEVNULL)


async def test_nobody_there(short_tmp: Path) -> None:
    """Where nobody listens the error says so within the time given."""
    connection = Connection(connection_info(short_tmp))
    with pytest.raises(ConnectionFailed, match="nobody answers"):
        await connection.open(ms(100))
    await connection.aclose()


async def test_close_ends_what_waits_c54(short_tmp: Path) -> None:
    """Closing answers every waiting call, may be done twice, and nothing works afterwards."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        waiting = asyncio.ensure_future(connection.call("list", {}))
        await asyncio.sleep(0)
        await connection.aclose()
        await connection.aclose()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await connection.call("list", {})


async def test_cancelled_open_leaves_nothing(short_tmp: Path) -> None:
    """A client whose opening is given up at any moment leaves no socket and no task."""
    with closing(FakeServer(short_tmp)) as server:
        for turns in range(12):
            connection = Connection(server.info)
            opening = asyncio.ensure_future(connection.open(5.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await connection.aclose()


async def test_forked_child_may_not_use_it_c51(short_tmp: Path) -> None:
    """In a forked child each use raises, and closing touches nothing of the parent's."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        # Standing in for a fork: the number that `getpid` would give in the child.
        connection._pid = os.getpid() + 1
        with pytest.raises(ClientClosed, match="fork"):
            await connection.call("list", {})
        await connection.aclose()
        connection._pid = os.getpid()
        server.handlers["forget"] = lambda _: {}
        await connection.call("forget", {"process_id": "p"})


async def test_identities_are_generated_c51(short_tmp: Path) -> None:
    """Two clients at once have their own sessions and prefixes, and each gets its own answers."""
    server = FakeServer(short_tmp)
    server.handlers["forget"] = lambda _: {}
    async with connected(server) as one, connected(server) as other:
        await asyncio.gather(*(c.call("forget", {"process_id": "p"}) for c in (one, other, one, other)))
        assert one.session != other.session
        assert one.prefix != other.prefix
    assert len({message.session for message in server.asked("forget")}) == 2


async def test_lost_welcome_is_asked_for_again_c48(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier whose welcome was lost is put up again, under another topic."""
    monkeypatch.setattr("execzmq.client.topics._WELCOME_AGAIN", ms(50))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        server.welcomes = False
        settling = asyncio.ensure_future(connection.topics.settle())
        await asyncio.wait([settling], timeout=ms(80))
        assert not settling.done()
        server.welcomes = True
        await settling


async def test_cursors_are_told_with_the_lease(short_tmp: Path) -> None:
    """How far a starter has read is told with each lease; of a process that is over just once more."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        connection.cursors.received("p", 7, 3)
        connection.cursors.received("p", 7, 2)
        connection.cursors.received("q", 8, 5, is_over=True)
        connection.renew()
        await server.until(lambda: len(server.asked("lease")) == 2)
        assert server.asked("lease")[1].content["cursors"] == {"p": [7, 3], "q": [8, 5]}
        connection.renew()
        await server.until(lambda: len(server.asked("lease")) == 3)
        assert server.asked("lease")[2].content["cursors"] == {"p": [7, 3]}


async def test_starter_is_heard_often_enough(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever a command may wait for renews its lease long before it would count as gone."""
    monkeypatch.setattr(cursors, "STARTER_GONE", ms(90))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        connection.cursors.hurry()
        await server.until(lambda: len(server.asked("lease")) >= 4)
