"""Following one process: every event once and in order, whatever is lost, doubled, late or slow."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from execzmq import settings
from execzmq.client import follow
from execzmq.client.core import Connection
from execzmq.client.follow import RELEASED, Early, Follower
from execzmq.errors import ClientClosed, InstanceChanged, ProcessNotFound, ServerLost
from execzmq.protocol.wire import Codec, Message
from execzmq.types.events import Closed, Event, Output, Started
from tests.client.fake_server import INSTANCE, Answer, FakeServer, Log, connected, whole
from tests.support import ms


async def _all(follower: Follower) -> list[Event]:
    return [event async for event in follower]


async def test_own_process_needs_no_page_c48(short_tmp: Path) -> None:
    """What is broadcast of a process since its start is complete without any `read`."""
    server = FakeServer(short_tmp)
    events = whole(3)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        early = Early(connection, process_id)
        server.broadcast(process_id, *events[:2])
        await connection.topics.settle()
        follower = Follower(connection, process_id, INSTANCE, early=early)
        server.broadcast(process_id, *events[2:])
        assert await _all(follower) == events
    assert not server.asked("read")


async def test_what_nobody_follows_is_not_decoded(short_tmp: Path) -> None:
    """Broadcasts are kept as they came, and nothing is listened to after the last one."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        early = Early(connection, process_id)
        server.send_raw([f"p.{process_id}.started".encode(), b"junk"])
        await connection.topics.settle()
        assert _listens(connection)
        server.send_raw([f"p.{process_id}.closed".encode(), b"junk"])
        server.tail(process_id, 4)
        await connection.topics.settle()
        assert connection.statistics()["refused_broadcasts"] == 0
        assert not _listens(connection)
        assert len(early.take() or ()) == 2


async def test_end_that_was_forged_early_is_not_believed_c56(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever follows finds that the end was none, and learns the true one."""
    monkeypatch.setattr(follow, "QUIET_AFTER", ms(50))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(2))
        server.handlers["read"] = log.read
        early = Early(connection, process_id)
        server.send_raw([f"p.{process_id}.closed".encode(), b"junk"])
        server.broadcast(process_id, *log.events)
        await connection.topics.settle()
        assert await _all(Follower(connection, process_id, INSTANCE, early=early)) == log.events


async def test_early_flood_is_read_from_the_log(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broadcasts that nobody takes for long are dropped, and read when somebody does follow."""
    monkeypatch.setattr(follow, "_EARLY_BYTES", 1000)
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(20))
        server.handlers["read"] = log.read
        early = Early(connection, process_id)
        server.broadcast(process_id, *log.events)
        await connection.topics.settle()
        assert await _all(Follower(connection, process_id, INSTANCE, early=early)) == log.events
    assert len(server.asked("read")) == 1


async def test_late_joiner_reads_then_listens_c60(short_tmp: Path) -> None:
    """Who comes late reads what was, page by page, and goes on with what is broadcast."""
    server = FakeServer(short_tmp)
    events = whole(10)
    log = Log("p", *events[:6])
    log.page_events = 4
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        follower = Follower(connection, "p", INSTANCE)
        seen: list[Event] = []
        while len(seen) < 6:
            seen += await follower.next_batch()
        server.broadcast("p", *events[6:])
        assert seen + await _all(follower) == events
    assert [message.content["after_seq"] for message in server.asked("read")] == [0, 4]


async def test_after_seq_is_where_it_begins(short_tmp: Path) -> None:
    """Nothing up to `after_seq` is given again."""
    server = FakeServer(short_tmp)
    log = Log("p", *whole(5))
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        assert await _all(Follower(connection, "p", INSTANCE, 4)) == log.events[4:]


async def test_lost_broadcasts_are_read_once_c49(short_tmp: Path) -> None:
    """Holes, repeats and disorder are repaired by one `read`, and each event is given once."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(8))
        server.handlers["read"] = log.read
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        e = log.events
        server.broadcast(process_id, e[0], e[1], e[1], e[4], e[3], e[7], e[0])
        assert await _all(follower) == e
    assert len(server.asked("read")) == 1


async def test_lost_end_shows_by_the_tail_c49(short_tmp: Path) -> None:
    """Where the last broadcasts are lost, the tail tells that there is more to read."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(1))
        server.handlers["read"] = log.read
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, log.events[0])
        server.tail(process_id, 4)
        assert await _all(follower) == log.events


async def test_silence_is_asked_about_c49(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the tails are lost, a long poll from the cursor brings the end."""
    monkeypatch.setattr(follow, "QUIET_AFTER", ms(50))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(1))
        server.handlers["read"] = log.read
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, log.events[0])
        assert await _all(follower) == log.events
    [read] = server.asked("read")
    assert read.content["wait"] == settings.LONG_POLL


async def test_next_page_is_asked_for_before_one_is_taken(short_tmp: Path) -> None:
    """The network works while the consumer does, one page ahead and no further."""
    server = FakeServer(short_tmp)
    events: list[Event] = [Started(1, 1)]
    size = settings.MAX_EVENT
    events += [Output(2 + at, "stdout", at * size, bytes(size)) for at in range(60)]
    log = Log("p", *events)
    log.page_events = settings.PAGE // size
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        follower = Follower(connection, "p", INSTANCE)
        first = await follower.next_batch()
        assert len(first) <= 2 * log.page_events
        await server.until(lambda: len(server.asked("read")) >= 3)
        await connection.topics.settle()
        assert len(server.asked("read")) == 3
        await follower.aclose()


async def test_pages_are_read_from_files_as_long_as_they_are_there(short_tmp: Path) -> None:
    """A server of this machine is asked where the output stands; what is gone from there it sends."""
    server = FakeServer(short_tmp)
    log = Log("p", *whole(6))
    log.page_events = 2
    stored = short_tmp / "out.0"
    names = [stored, stored, short_tmp / "gone"]

    def read(message: Message) -> Answer:
        answer = log.read(message)
        assert isinstance(answer, tuple)
        fields, buffers = answer
        if not message.content.get("by_file"):
            return fields, buffers
        stored.write_bytes(b"".join(buffers))
        status = stored.stat()
        place: dict[str, object] = {
            "device": status.st_dev,
            "inode": status.st_ino,
            "position": 0,
            "length": status.st_size,
        }
        place["file"] = bytes(names.pop(0))
        return {**fields, **place}, []

    server.handlers["read"] = read
    async with connected(server) as connection:
        connection.opens_files = True
        assert await _all(Follower(connection, "p", INSTANCE)) == log.events
    asked = [(read.content["after_seq"], "by_file" in read.content) for read in server.asked("read")]
    assert asked == [(0, True), (2, True), (4, True), (4, False), (6, False), (8, False)]


async def test_slow_consumer_holds_little(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is broadcast to a consumer that does not take it is not heaped up; it reads it later."""
    monkeypatch.setattr(follow, "_MOST_HELD", 2000)
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(200))
        server.handlers["read"] = log.read
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, log.events[0])
        seen = await follower.next_batch()
        for event in log.events[1:]:
            server.broadcast(process_id, event)
        await connection.topics.settle()
        assert follower.seq < 20
        assert seen + await _all(follower) == log.events


async def test_reconnect_goes_on_where_it_was_c60(short_tmp: Path) -> None:
    """After a lost connection the follower reads from its cursor, without a doubled or a missing event."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        log = Log(process_id, *whole(5))
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, *log.events[:3])
        seen: list[Event] = []
        while len(seen) < 3:
            seen += await follower.next_batch()
        server.close()
        with closing(FakeServer(short_tmp, epoch=server.epoch)) as again:
            again.handlers["read"] = log.read
            assert seen + await _all(follower) == log.events
            assert again.asked("read")[0].content["after_seq"] == 3


async def test_other_life_of_the_id_is_an_error(short_tmp: Path) -> None:
    """Events of another instance are not taken for this one's; the error names the new one."""
    server = FakeServer(short_tmp)
    server.handlers["read"] = lambda _: InstanceChanged("p has a new life", instance=8)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, *whole(0), instance=8)
        with pytest.raises(InstanceChanged) as caught:
            await _all(follower)
    assert caught.value.instance == 8


async def test_forgotten_process_is_an_error_after_what_came(short_tmp: Path) -> None:
    """An error comes after the events that came before it."""
    server = FakeServer(short_tmp)
    server.handlers["read"] = lambda _: ProcessNotFound("p was forgotten")
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        server.broadcast(process_id, Started(1, 1))
        server.tail(process_id, 5)
        assert await anext(follower) == Started(1, 1)
        with pytest.raises(ProcessNotFound):
            await anext(follower)


async def test_lost_server_ends_it_c59(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows a process of a dead server is told within the stated time."""
    monkeypatch.setattr("execzmq.client.core.SERVER_GONE", ms(100))
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        waiting = asyncio.ensure_future(_all(follower))
        await asyncio.sleep(0)
        server.close()
        with pytest.raises(ServerLost):
            await waiting


async def test_close_of_the_client_ends_it(short_tmp: Path) -> None:
    """A follower does not outlive its client."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        follower = Follower(connection, connection.new_process_id(), INSTANCE)
        waiting = asyncio.ensure_future(_all(follower))
        await server.until(lambda: bool(server.asked("read")))
        await connection.aclose()
        with pytest.raises(ClientClosed):
            await waiting


async def test_cancelled_wait_loses_nothing(short_tmp: Path) -> None:
    """A wait that is given up at any moment takes no event with it."""
    server = FakeServer(short_tmp)
    log = Log("p", *whole(3))
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        for turns in range(10):
            follower = Follower(connection, "p", INSTANCE)
            waiting = asyncio.ensure_future(follower.next_batch())
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            seen = await asyncio.gather(waiting, return_exceptions=True)
            got = seen[0] if isinstance(seen[0], list) else []
            assert got + await _all(follower) == log.events


async def test_starter_tells_how_far_it_has_read(short_tmp: Path) -> None:
    """A starter that the command waits for tells its cursor in time, and at its end."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        early = Early(connection, process_id)
        follower = Follower(connection, process_id, INSTANCE, early=early, tell_every=4)
        server.broadcast(process_id, *whole(2)[:3])
        assert await anext(follower) == Started(1, 4711)
        await server.until(lambda: len(server.asked("lease")) == 2)
        assert server.asked("lease")[1].content["cursors"] == {process_id: [INSTANCE, 3]}
        await follower.aclose()
        await server.until(lambda: len(server.asked("lease")) == 3)
        assert server.asked("lease")[2].content["cursors"] == {process_id: [INSTANCE, RELEASED]}


async def test_forged_broadcast_is_not_believed_c56(short_tmp: Path) -> None:
    """What is not signed with the key, or is under another process's topic, reaches nobody."""
    server = FakeServer(short_tmp)
    async with connected(server) as connection:
        process_id = connection.new_process_id()
        follower = Follower(connection, process_id, INSTANCE, early=Early(connection, process_id))
        forged = Codec(b"another key", "x").encode("process_started", {})
        server.send_raw([f"p.{process_id}.started".encode(), *forged])
        server.send_raw([f"p.{process_id}.started".encode(), b"junk"])
        server.broadcast(process_id, *whole(1))
        assert await _all(follower) == whole(1)
        assert connection.statistics()["refused_broadcasts"] == 2


async def test_end_leaves_no_subscription(short_tmp: Path) -> None:
    """After the last event nothing of the follower is left, although nobody has closed it."""
    server = FakeServer(short_tmp)
    log = Log("p", *whole(1))
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        follower = Follower(connection, "p", INSTANCE)
        assert isinstance((await _all(follower))[-1], Closed)
        assert await follower.next_batch() == []
        assert not _listens(connection)


async def test_two_followers_share_a_subscription(short_tmp: Path) -> None:
    """Each follower of a process has every event; the first to go takes nothing from the other."""
    server = FakeServer(short_tmp)
    log = Log("p")
    server.handlers["read"] = log.read
    async with connected(server) as connection:
        one, other = (Follower(connection, "p", INSTANCE) for _ in range(2))
        ends = [asyncio.ensure_future(follower.next_batch()) for follower in (one, other)]
        await server.until(lambda: len(server.asked("read")) == 2)
        server.broadcast("p", Started(1, 1))
        assert [await end for end in ends] == [[Started(1, 1)]] * 2
        await one.aclose()
        server.broadcast("p", *whole(0)[1:])
        assert len(await _all(other)) == 2
        assert not _listens(connection)


def _listens(connection: Connection) -> bool:
    return bool(connection.topics.statistics()["listeners"] or connection.topics.statistics()["held"])
