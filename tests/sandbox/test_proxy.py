"""A proxy between real sockets: what is allowed flows both ways, what is not is refused, told and bounded."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from ipaddress import ip_address
from typing import Any

import pytest

from execzmq.sandbox import dialing, proxy, tunnel
from execzmq.sandbox.denials import Denial
from execzmq.sandbox.dialing import Dialer, Refused, Resolver, Unreachable, reason_here
from execzmq.sandbox.hosts import Address, parse_pattern, parse_target
from execzmq.sandbox.proxy import Proxy
from tests.support import deadline, ms, pass_time

LOOPBACK = ip_address("127.0.0.1")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def own_loopback_too(address: Address, listed: bool) -> str | None:
    """Let the tests' own servers through, which are on loopback, and nothing else that is not allowed."""
    return None if address == LOOPBACK else reason_here(address, listed)


class Site:
    """A proxy with a server behind it that any name leads to, and what was told of refusals."""

    def __init__(self) -> None:
        self.told: list[Denial] = []
        self.asked: list[str] = []
        self.addresses: Sequence[Address] = [LOOPBACK]
        self.port = 0
        self.proxy: Proxy
        self.address = ("", 0)

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Answer as the test says, and note who asked."""
        self.asked.append(host)
        return self.addresses

    async def talk(self, said: bytes) -> bytes:
        """Say something to the proxy, and return all that comes back."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(said)
            return await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def tunnel(self, host: str = "a.example") -> tunnel.Connection:
        """Open a tunnel to the server."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(f"CONNECT {host}:{self.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        return reader, writer


@contextlib.asynccontextmanager
async def site(
    handler: Handler, *patterns: str, reason: dialing.Reason = own_loopback_too, room: int = 100
) -> AsyncIterator[Site]:
    """Have a server and a proxy that allows these patterns, `PORT` being the server's."""
    own = Site()
    served: list[tuple[asyncio.StreamWriter, asyncio.Task[None]]] = []

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append((writer, asyncio.ensure_future(handler(reader, writer))))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    own.port = server.sockets[0].getsockname()[1]
    listener = socket.create_server(("127.0.0.1", 0))
    own.address = listener.getsockname()
    found = [
        parse_pattern(pattern.replace("PORT", str(own.port))) for pattern in patterns or ["*.example:PORT"]
    ]
    own.proxy = Proxy(listener, Dialer(found, own.resolve, reason), own.told.append, asyncio.Semaphore(room))
    try:
        yield own
    finally:
        own.proxy.close()
        own.proxy.close()
        await own.proxy.wait_closed()
        server.close()
        for writer, task in served:
            writer.transport.abort()
            await task
        await server.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say what is said, and end when it ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Neither read nor speak."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport


async def test_tunnel_carries_both_ways_and_its_ends_apart() -> None:
    """One end of a tunnel is passed on while the other direction goes on."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = len(await reader.read())
        writer.write(b"%d" % size)
        writer.close()

    async with site(count) as own:
        reader, writer = await own.tunnel()
        writer.write(b"x" * (1 << 20))
        writer.write_eof()
        assert await reader.read() == b"%d" % (1 << 20)
        writer.close()
        await writer.wait_closed()


async def test_plain_request_reaches_the_server_as_its_own() -> None:
    """The server sees a path, its own name, and a body as it was sent."""

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head + body)
        writer.close()

    async with site(server) as own:
        said = (
            b"POST http://a.example:%d/p HTTP/1.1\r\nHost: b.example\r\nContent-Length: 4\r\n\r\nbody"
            % own.port
        )
        answered = await own.talk(said)
    assert answered.partition(b"\r\n\r\n")[2] == (
        b"POST /p HTTP/1.1\r\nHost: a.example:%d\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        % own.port
    )


async def test_refusal_says_what_to_do_and_is_told_once() -> None:
    """A host that is not listed is never looked up; what comes again is told with its count."""
    async with site(echo) as own:
        for _ in range(3):
            answered = await own.talk(b"CONNECT other.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answered.startswith(b"HTTP/1.1 403 Forbidden (execzmq: other.test:443 is not allowed")
            assert answered.endswith(b"allow it with --allow-host other.test\n")
        assert own.told == [Denial("other.test", 443, "not listed")]
        assert own.asked == []
    assert own.told[1:] == [Denial("other.test", 443, "not listed", 2)]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "a cloud's metadata"),
        ("10.0.0.1", "private"),
        ("0.0.0.0", "unspecified"),
    ],
)
async def test_name_that_leads_home_is_refused_escape_81(address: str, reason: str) -> None:
    """An allowed name whose owner points it at this machine or its networks gets nobody there."""
    async with site(echo, reason=reason_here) as own:
        own.addresses = [ip_address(address)]
        answered = await own.talk(b"CONNECT a.example:%d HTTP/1.1\r\nHost: x\r\n\r\n" % own.port)
        assert b" 403 " in answered
        assert f"is at {ip_address(address)}, which is {reason}".encode() in answered
        assert own.told == [Denial("a.example", own.port, reason)]


async def test_names_are_looked_up_once_and_other_addresses_left_out() -> None:
    """Of several addresses only those that passed are dialled, without a second look-up."""
    async with site(echo) as own:
        own.addresses = [ip_address("169.254.169.254"), ip_address("::1"), LOOPBACK]
        reader, writer = await own.tunnel()
        writer.write(b"here")
        assert await reader.readexactly(4) == b"here"
        assert own.asked == ["a.example"]
        writer.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_address_needs_to_be_listed_and_loopback_does_not_help(host: str) -> None:
    """An address is no name below a pattern; one that is listed may still be the wrong kind."""
    async with site(echo) as own:
        assert b" 403 " in await own.talk(f"CONNECT {host}:{own.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    for pattern in ("*.example", f"{host}:PORT"):
        async with site(echo, pattern, reason=reason_here) as own:
            answered = await own.talk(f"CONNECT {host}:{own.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b"which is loopback and is reached from no sandbox" in answered
            assert b"--allow-host" not in answered
            assert own.asked == []


async def test_own_address_is_refused_whatever_its_range() -> None:
    """An address that the kernel would route back to this machine counts as this machine's own."""

    def own_address(address: Address, listed: bool) -> str | None:
        return reason_here(address, listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialing, "leads_here", lambda address: True)
        async with site(echo, reason=own_address) as own:
            own.addresses = [ip_address("1.1.1.1")]
            answered = await own.talk(b"CONNECT a.example:%d HTTP/1.1\r\nHost: x\r\n\r\n" % own.port)
            assert b"which is this machine's own" in answered


async def test_who_is_not_there_is_named() -> None:
    """A name without an address is 502, as is a port where nobody listens."""
    async with site(echo, "*.example:1") as own:
        assert b" 502 Bad Gateway (execzmq: a.example:1 cannot be reached" in await own.talk(
            b"CONNECT a.example:1 HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        own.addresses = []
        assert b" 502 " in await own.talk(b"CONNECT a.example:1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert own.told == []


async def test_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a client that does not ask nor a resolver that does not answer is waited for without end."""
    monkeypatch.setattr(proxy, "_HEAD_SECONDS", ms(20))
    monkeypatch.setattr(dialing, "_LOOKUP_SECONDS", ms(20))
    async with site(echo) as own:
        assert b" 408 " in await own.talk(b"GET http://a.exam")

        async def resolve(host: str, port: int) -> Sequence[Address]:
            await asyncio.Event().wait()
            return []

        dialer = Dialer([parse_pattern("a.example")], resolve)
        with pytest.raises(Unreachable) as slow:
            await dialer.dial(parse_target("a.example:443"))
        assert slow.value.timed_out
        dialer.close()
        await asyncio.sleep(0)


async def test_stalled_peer_holds_up_nobody_and_little_memory() -> None:
    """A server that does not read stops its own client; others go on."""

    async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        await (silence if first == b"s" else echo)(reader, writer)

    async with site(both) as own:
        _, stalled = await own.tunnel()
        stalled.write(b"s")
        written = 0
        with contextlib.suppress(TimeoutError):
            while written < 1 << 28:
                stalled.write(b"x" * (1 << 16))
                written += 1 << 16
                async with asyncio.timeout(ms(200)):
                    await stalled.drain()
        assert written < 1 << 26
        other, writer = await own.tunnel("b.example")
        writer.write(b"ehello")
        async with deadline(5):
            assert await other.readexactly(5) == b"hello"
        stalled.transport.abort()
        writer.close()


async def test_connections_beyond_the_bound_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are served as soon as another ends, and none is refused."""
    monkeypatch.setattr(proxy, "CONNECTIONS", 2)
    async with site(echo) as own:
        first, second = await own.tunnel(), await own.tunnel()
        third = asyncio.create_task(own.tunnel())
        await pass_time(ms(50))
        assert not third.done()
        first[1].close()
        async with deadline(5):
            (await third)[1].close()
        second[1].close()


async def test_one_that_breaks_ends_both(caplog: pytest.LogCaptureFixture) -> None:
    """A connection that is reset ends its other half, and nothing is logged: it is the peers' business."""
    ended = asyncio.Event()

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        ended.set()
        writer.close()

    async with site(server) as own:
        _, writer = await own.tunnel()
        writer.write(b"x")
        writer.transport.abort()
        async with deadline(5):
            await ended.wait()
    assert not caplog.records


async def test_half_open_and_silent_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has closed cannot be told from one that has nothing more to say: it has its limit."""
    monkeypatch.setattr(tunnel, "_HALF_OPEN_SECONDS", ms(30))
    async with site(silence) as own:
        reader, writer = await own.tunnel()
        writer.write_eof()
        async with deadline(5):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_close_ends_open_tunnels() -> None:
    """Nothing of a proxy is left, whatever its connections were doing (the fixtures look)."""
    async with site(echo) as own:
        reader, writer = await own.tunnel()
        idle, idle_writer = await asyncio.open_connection(*own.address)
        own.proxy.close()
        async with deadline(5):
            await own.proxy.wait_closed()
            for end in (reader, idle):
                with contextlib.suppress(ConnectionError):
                    assert await end.read() == b""
        writer.close()
        idle_writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*own.address)


async def test_system_resolver_is_asked_in_threads_of_its_own() -> None:
    """All addresses of a name come back, and an unknown one is an error."""
    resolver = Resolver()
    try:
        assert LOOPBACK in await resolver.look_up("localhost", 80)
        dialer = Dialer([parse_pattern("localhost")], resolver.look_up)
        with pytest.raises(Refused, match="loopback"):
            await dialer.dial(parse_target("localhost:80"))
    finally:
        resolver.close()
