"""The backend behind a connection: what it asks for, and what it makes of the answers."""

import asyncio
import dataclasses
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from execzmq import settings
from execzmq.client import remote, writer
from execzmq.client.aio import AsyncClient
from execzmq.client.remote import RemoteBackend
from execzmq.errors import (
    ConnectionFailed,
    InvalidRequest,
    ProcessNotFound,
    RequestTimeout,
    ServerLost,
    StdinClosed,
    VersionMismatch,
    WrongEpoch,
)
from execzmq.protocol.values import process_info_to_wire
from execzmq.protocol.wire import Message
from execzmq.types.params import ExecParams
from execzmq.types.results import ProcessInfo
from tests.client.fake_server import INSTANCE, Answer, FakeServer, Log, connection_info, whole
from tests.support import ms

TRUE = ExecParams(argv=(b"true",))
CAT = ExecParams(argv=(b"cat",), stdin="pipe")


@asynccontextmanager
async def opened(server: FakeServer) -> AsyncIterator[RemoteBackend]:
    """Open a backend; it and the server are closed in the end."""
    server.handlers.setdefault("start", _started)
    try:
        backend = await RemoteBackend.open(server.info)
        try:
            yield backend
        finally:
            await backend.aclose()
    finally:
        server.close()


def _started(message: Message) -> Answer:
    return {
        "process_id": message.content["process_id"],
        "instance": INSTANCE,
        "pid": 4711,
        "repeated": False,
    }


class Stdin:
    """Takes what is written, by offset, as a server does; `lose` answers are lost on their way."""

    def __init__(self, lose: int = 0) -> None:
        self.data = b""
        self.ends = 0
        self.lose = lose

    def write(self, message: Message) -> Answer:
        """Answer a `write`."""
        offset = message.content["offset"]
        if offset > len(self.data):
            return InvalidRequest("beyond", offset=len(self.data))
        self.data += bytes(message.buffers[0])[len(self.data) - offset :]
        self.ends += message.content["end"]
        self.lose -= 1
        return None if self.lose >= 0 else {"offset": len(self.data)}


async def test_start_needs_no_page(short_tmp: Path) -> None:
    """A short command costs one request: all its events come by themselves, also before the reply."""
    server = FakeServer(short_tmp)

    def start(message: Message) -> Answer:
        server.broadcast(message.content["process_id"], *whole(1))
        return _started(message)

    server.handlers["start"] = start
    async with opened(server) as backend:
        process = await backend.start(TRUE)
        assert [event async for event in process.subscribe_events()] == whole(1)
    assert not server.asked("read")


async def test_chosen_id_is_followed_from_its_beginning(short_tmp: Path) -> None:
    """With an id of the caller's choice, what was missed before the subscription is read."""
    server = FakeServer(short_tmp)
    server.handlers["read"] = Log("chosen", *whole(1)).read
    async with opened(server) as backend:
        process = await backend.start(dataclasses.replace(TRUE, process_id="chosen"))
        assert process.process_id == "chosen"
        assert [event async for event in process.subscribe_events()] == whole(1)


async def test_second_follower_reads_from_the_log(short_tmp: Path) -> None:
    """Whoever follows once more gets every event again."""
    server = FakeServer(short_tmp)
    async with opened(server) as backend:
        process = await backend.start(TRUE)
        server.handlers["read"] = Log(process.process_id, *whole(1)).read
        server.broadcast(process.process_id, *whole(1))
        for _ in range(2):
            assert [event async for event in process.subscribe_events()] == whole(1)


async def test_start_at_a_newer_server_than_known(short_tmp: Path) -> None:
    """A start that a new server refuses for its epoch is repeated for the new one, under the same id."""
    server = FakeServer(short_tmp)

    def start(message: Message) -> Answer:
        if message.content["epoch"] != "new":
            server.epoch = "new"
            return WrongEpoch("meant for an earlier life", epoch="new")
        return _started(message)

    server.handlers["start"] = start
    async with opened(server) as backend:
        process = await backend.start(TRUE)
    assert {message.content["process_id"] for message in server.asked("start")} == {process.process_id}


async def test_very_many_starts_at_once(short_tmp: Path) -> None:
    """Starts beyond what a server takes at a time wait their turn, and none is refused or lost."""
    server = FakeServer(short_tmp)
    server.handlers["start"] = lambda _: None
    async with opened(server) as backend:
        starts = [asyncio.ensure_future(backend.start(TRUE)) for _ in range(400)]
        await server.until(lambda: len(server.asked("start")) == remote._AT_ONCE)
        server.handlers["start"] = _started
        for message in server.asked("start"):
            server.answer_late(message, _started(message))
        assert len({process.process_id for process in await asyncio.gather(*starts)}) == 400


async def test_abandoned_iterator_is_closed(short_tmp: Path) -> None:
    """A `for` that is left in the middle leaves no follower behind."""
    server = FakeServer(short_tmp)
    async with opened(server) as backend:
        process = await backend.start(TRUE)
        server.broadcast(process.process_id, *whole(5))
        async for _ in process.subscribe_events():
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not backend.statistics()["listeners"]


async def test_large_write_goes_in_pieces(short_tmp: Path) -> None:
    """What is written comes whole, in pieces of bounded size, and the end with the last one."""
    server, stdin = FakeServer(short_tmp), Stdin()
    server.handlers["write"] = stdin.write
    data = os.urandom(2 * settings.WRITE_PIECE + 5)
    async with opened(server) as backend:
        process = await backend.start(CAT)
        assert await process.write(data, end=True) == len(data)
        with pytest.raises(StdinClosed):
            await process.write(b"more")
    assert stdin.data == data
    assert stdin.ends == 1
    assert len(server.asked("write")) == 3


async def test_writes_of_many_tasks_stay_whole(short_tmp: Path) -> None:
    """Writes by several tasks and handles follow one another."""
    server, stdin = FakeServer(short_tmp), Stdin()
    server.handlers["write"] = stdin.write
    server.handlers["describe"] = lambda _: {"process": _description("p")}
    async with opened(server) as backend:
        process = await backend.start(dataclasses.replace(CAT, process_id="p"))
        other = await backend.attach("p")
        await asyncio.gather(*(handle.write(b"0123456789") for handle in (process, other) * 5))
    assert stdin.data == b"0123456789" * 10


async def test_write_whose_answer_is_lost_c64(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that was taken without an answer is not taken twice."""
    monkeypatch.setattr(writer, "_BLOCKED", ms(50))
    monkeypatch.setattr(writer, "LONG_POLL", 0.0)
    server, stdin = FakeServer(short_tmp), Stdin(lose=2)
    server.handlers["write"] = stdin.write
    async with opened(server) as backend:
        process = await backend.start(CAT)
        await process.write(b"once ")
        await process.write(b"and no more")
    assert stdin.data == b"once and no more"


async def test_write_without_a_connection_does_not_hang_later(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that could not leave is an error; the next one, with a server again, goes through."""
    monkeypatch.setattr("execzmq.client.core.SERVER_GONE", ms(50))
    server, stdin = FakeServer(short_tmp), Stdin()
    async with opened(server) as backend:
        process = await backend.start(CAT)
        server.close()
        for _ in range(2):
            with pytest.raises(ServerLost):
                await process.write(b"lost")
        with closing(FakeServer(short_tmp, epoch=server.epoch)) as again:
            again.handlers["write"] = stdin.write
            await again.until(lambda: bool(again.asked("lease")))
            await process.write(b"found")
    assert stdin.data == b"found"


async def test_cancelled_write_is_not_doubled(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that was given up while on its way, the next one goes on where that came to."""
    server, stdin = FakeServer(short_tmp), Stdin()
    async with opened(server) as backend:
        process = await backend.start(CAT)
        writing = asyncio.ensure_future(process.write(b"taken "))
        await server.until(lambda: bool(server.asked("write")))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        stdin.write(server.asked("write")[0])
        server.handlers["write"] = stdin.write
        monkeypatch.setattr(writer, "_BLOCKED", ms(50))
        next_one = asyncio.ensure_future(process.write(b"next"))
        server.answer_late(server.asked("write")[0], {"offset": len(stdin.data)})
        await next_one
    assert stdin.data == b"taken next"


async def test_blocked_write_waits_while_the_server_lives(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does not read may hold a write up for long; a process that is gone may not."""
    monkeypatch.setattr(writer, "CALL_TIMEOUT", ms(20))
    server = FakeServer(short_tmp)
    looks: Iterator[Answer] = iter(
        [*[{"process": _description("p")}] * 3, ProcessNotFound("p was forgotten")]
    )
    server.handlers["describe"] = lambda _: next(looks)
    async with opened(server) as backend:
        process = await backend.start(CAT)
        with pytest.raises(ProcessNotFound):
            await process.write(b"x")
    assert len(server.asked("write")) == 1


async def test_signals_are_numbers(short_tmp: Path) -> None:
    """Names are understood here; a name that is none does not reach the server."""
    server = FakeServer(short_tmp)
    server.handlers["signal"] = lambda _: {}
    async with opened(server) as backend:
        process = await backend.start(TRUE)
        for name in ("INT", "SIGINT", 2):
            await process.signal(name)
        with pytest.raises(InvalidRequest):
            await process.signal("NONE")
    assert [message.content["signal"] for message in server.asked("signal")] == [2, 2, 2]


async def test_version_mismatch(short_tmp: Path) -> None:
    """A server of another protocol is told as such, and nothing is left open."""
    server = FakeServer(short_tmp)
    server.protocol = 99
    with pytest.raises(VersionMismatch, match="99"):
        async with opened(server):
            pass


async def test_file_of_a_dead_server_is_told_at_once_c58(short_tmp: Path) -> None:
    """With the file of a server that is dead nobody waits."""
    with pytest.raises(ConnectionFailed, match="no server listens"):
        await RemoteBackend.open(connection_info(short_tmp))
    info = connection_info(short_tmp)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(info.socket_path("shell")))
    with pytest.raises(ConnectionFailed, match="no server listens"):
        await RemoteBackend.open(info)


async def test_stopped_server_is_a_timeout_c59(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has stopped is neither dead nor the owner of another key."""
    monkeypatch.setattr("execzmq.client.core._HEART", ms(50))
    server = FakeServer(short_tmp, heart=False)
    server.handlers.clear()
    with pytest.raises(RequestTimeout, match="stopped"):
        await RemoteBackend.open(server.info, ms(100))
    server.close()


@pytest.mark.parametrize(
    ("mode", "host", "is_local"), [(0o700, "", True), (0o755, "", False), (0o700, "x", False)]
)
async def test_only_an_own_server_here_is_local(
    short_tmp: Path, mode: int, host: str, is_local: bool
) -> None:
    """The caller's folder and env mean something to a server of this user's on this machine alone."""
    server = FakeServer(short_tmp)
    if host:
        server.host = host
    os.chmod(short_tmp, mode)
    async with opened(server) as backend:
        assert backend.is_local is is_local


@pytest.mark.parametrize("fault", ["another host", "an open folder", "a route"])
async def test_crafted_file_gets_neither_folder_nor_variables(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Whoever hands one a connection file learns nothing of who opens it, whatever it claims."""
    monkeypatch.setenv("SECRET_OF_MINE", "1")
    server = FakeServer(short_tmp)
    server.handlers["start"] = _started
    if fault == "another host":
        server.host = "elsewhere"
    if fault == "an open folder":
        os.chmod(short_tmp, 0o755)
    route = _Route() if fault == "a route" else None
    client = AsyncClient(await RemoteBackend.open(server.info, route=route))
    await client.start(["true"])
    await client.aclose()
    server.close()
    [asked] = server.asked("start")
    assert not {name for name in ("cwd", "env", "umask") if asked.content.get(name) is not None}
    assert b"SECRET_OF_MINE" not in repr(asked.content).encode()


class _Route:
    """A way to a server that is what it says."""

    problem = ""

    async def aclose(self) -> None:
        """End it."""


def _description(process_id: str) -> dict[str, Any]:
    return process_info_to_wire(
        ProcessInfo(process_id, None, INSTANCE, (b"cat",), b"/", "running", 1, 0.0, False, False, None, 1)
    )
