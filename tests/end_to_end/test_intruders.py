"""Whoever is not let in, or wants more than its share allows: strangers, stolen files, frames, floods."""

import asyncio
import contextlib
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from execzmq.client.remote import RemoteBackend
from execzmq.connection import ConnectionInfo, load
from execzmq.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidRequest,
    PermissionRefused,
    RequestTimeout,
)
from execzmq.protocol.wire import DELIMITER, Codec
from execzmq.settings import MAX_TOPICS
from execzmq.types.params import SandboxIntent
from tests.commands import all_events, output_of, python, shell, words
from tests.end_to_end import flood
from tests.end_to_end.test_shares import HERE, TICKING, guest
from tests.raw import raw, secure, start_content
from tests.servers import ServerProcess, serving
from tests.shares import shared
from tests.support import TIMESCALE, deadline, wait_until

pytestmark = pytest.mark.slow

QUIET = 0.4
"""Seconds in which what would come, had it been let through, has come."""


@contextlib.contextmanager
def follower(info: ConnectionInfo, kind: int = zmq.XSUB) -> "Iterator[zmq.Socket[bytes]]":
    """Be connected to the broadcasts, by hand."""
    with zmq.Context() as context, context.socket(kind) as sub:
        sub.linger = 0
        secure(sub, info)
        sub.connect(info.endpoint("iopub"))
        yield sub


def _topics(sub: "zmq.Socket[bytes]", seconds: float = QUIET) -> set[bytes]:
    """Return the topics of all that comes until it has been quiet, or for ten times as long."""
    found = set()
    end = time.monotonic() + 10 * seconds * TIMESCALE
    while time.monotonic() < end and sub.poll(int(seconds * TIMESCALE * 1000)):
        found.add(sub.recv_multipart()[0])
    return found


def _wait_for(sub: "zmq.Socket[bytes]", beginning: bytes) -> None:
    """Wait until something comes whose topic begins so."""
    end = time.monotonic() + 10 * QUIET * TIMESCALE
    while time.monotonic() < end and sub.poll(int(QUIET * TIMESCALE * 1000)):
        if sub.recv_multipart()[0].startswith(beginning):
            return
    raise AssertionError(f"nothing came under {beginning!r}")


# Strangers


async def test_nobody_comes_in_without_a_key_that_the_server_knows(tmp_path: Path) -> None:
    """A key of one's own, another server's, none at all: refused, or never heard."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            publickey, secretkey = (key.decode() for key in zmq.curve_keypair())
            own_pair = replace(info, curve_publickey=publickey, curve_secretkey=secretkey)
            with pytest.raises(AuthenticationFailed):
                await RemoteBackend.open(own_pair, 5.0)
            for stranger in (
                replace(info, curve_serverkey=publickey),
                replace(
                    info, curve_serverkey="", curve_publickey="", curve_secretkey="", key=server.info.key
                ),
            ):
                with pytest.raises((ConnectionFailed, AuthenticationFailed, RequestTimeout)):
                    await RemoteBackend.open(stranger, 1.0)
            assert (await owner.server_info()).statistics["requests"] > 0


async def test_the_heart_beats_for_nobody_else(tmp_path: Path) -> None:
    """It has a handler of its own, without which CURVE would let any key in."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "observer", (await _sleeper(owner)))
            publickey, secretkey = (key.decode() for key in zmq.curve_keypair())
            stranger = replace(info, curve_publickey=publickey, curve_secretkey=secretkey)
            assert await asyncio.to_thread(_beats, info)
            assert not await asyncio.to_thread(_beats, stranger)


async def _sleeper(owner: RemoteBackend) -> str:
    return (await owner.start(words("sleep", "60"))).process_id


def _beats(info: ConnectionInfo) -> bool:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        secure(dealer, info)
        dealer.connect(info.endpoint("hb"))
        dealer.send(b"ping")
        return bool(dealer.poll(int(QUIET * 2 * TIMESCALE * 1000)))


def _zmtp(*frames: bytes) -> bytes:
    """Return a message of ZMTP 3."""
    last = len(frames) - 1
    return b"".join(
        (b"\x02" if number == last else b"\x03") + len(frame).to_bytes(8) + frame
        for number, frame in enumerate(frames)
    )


async def test_who_one_is_cannot_be_claimed(tmp_path: Path) -> None:
    """A connection may say what it likes in its greeting: what the server's own handler says of it holds."""
    with serving("t", "--transport", "tcp", *HERE, "--insecure") as server:
        info = load(server.state / "connection-tcp.json")
        codec = Codec(info.key.encode(), "liar")
        undigested = codec.encode("info_request", {}, buffers=[b"x"])  # only `network` must have a digest
        right = codec.encode("info_request", {})
        said = {b"Socket-Type": b"DEALER", b"Identity": b"", b"User-Id": b"owner", b"__fd": b"0"}
        ready = b"\x05READY" + b"".join(
            bytes([len(name)]) + name + len(value).to_bytes(4) + value for name, value in said.items()
        )
        reader, writer = await asyncio.open_connection(info.ip, info.shell_port)
        writer.write(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31))
        writer.write(b"\x04" + bytes([len(ready)]) + ready)
        await reader.readuntil(b"READY")  # so it has been let in
        writer.write(_zmtp(*map(bytes, undigested)) + _zmtp(*map(bytes, right)))
        received = await reader.readuntil(b"info_reply")
        writer.close()
        await writer.wait_closed()
        assert received.count(DELIMITER) == 1  # the other one has no answer


# A stolen observer's file


async def test_a_stolen_file_does_not_make_a_server(tmp_path: Path) -> None:
    """Whoever has one cannot pose as the server to another: it has not the server's secret."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            process_id = await _sleeper(owner)
            stolen = await shared(owner, tmp_path / "stolen.json", "observer", process_id)
            victim = await shared(owner, tmp_path / "victim.json", "observer", process_id)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as fake:
        fake.linger = 0
        fake.curve_server = True
        fake.curve_secretkey = stolen.curve_secretkey.encode()
        port = fake.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises((ConnectionFailed, AuthenticationFailed, RequestTimeout)):
            await RemoteBackend.open(replace(victim, shell_port=port, control_port=port), 1.0)
        assert not fake.poll(0)


async def test_a_stolen_file_speaks_for_no_other_client(tmp_path: Path) -> None:
    """Not under another's session, nor for its reads, nor with a request that another has sent before."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(words("sleep", "60", process_id="p"))
            stolen = await shared(owner, tmp_path / "stolen.json", "observer", "p")
            operator = await shared(owner, tmp_path / "operator.json", "operator")
            await asyncio.to_thread(_pose, server.info, stolen, operator)


def _pose(local: ConnectionInfo, stolen: ConnectionInfo, operator: ConnectionInfo) -> None:
    with raw(operator) as honest, raw(stolen) as thief, raw(local) as owner:
        for client in (honest, thief, owner):
            client.codec.session = "theirs"
        line = start_content(local, "sleep", "60", cwd=b"/", lifetime="client")
        kept = honest.codec.encode("start_request", line)
        honest.send(kept)
        answer = honest.receive().content
        assert answer["status"] == "ok", answer
        thief.send(kept)
        assert thief.receive().content["ename"] == "PermissionRefused"
        mine = {"process_id": answer["process_id"]}
        assert thief.ask("describe", {"id_or_name": mine["process_id"]}).content["ename"] == "ProcessNotFound"
        # a session that ends takes along what it has started: this one has started nothing
        over = {"seconds": 0.0, "cursors": {mine["process_id"]: [answer["instance"], 1 << 62]}, "open": ["a"]}
        for client in (thief, owner):
            assert client.ask("lease", over).content["status"] == "ok"
        waited = honest.ask("wait", {**mine, "until": "exited", "timeout": 2.5}).content["process"]
        assert waited["state"] == "running"
        assert honest.ask("lease", over).content["status"] == "ok"
        waited = honest.ask("wait", {**mine, "until": "exited", "timeout": 10.0}).content["process"]
        assert waited["result"]["asked_by"] == "lease"


@pytest.mark.parametrize("profile", ["", "read-only"])
async def test_an_operator_reaches_no_socket_of_the_host(short_tmp: Path, profile: str) -> None:
    """By a folder that it names itself, or by a link to it in a root of its share."""
    (short_tmp / "own").mkdir()
    (short_tmp / "own" / "link").symlink_to("..")
    with serving("t", *HERE) as server, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "socket"))
        listener.listen()
        async with server.backend() as owner:
            roots = (str(short_tmp / "own").encode(),)
            terms = {"sandbox": SandboxIntent("workspace-write", roots)}
            info = await shared(owner, short_tmp / "operator.json", "operator", **terms)
            async with guest(info) as operator:
                code = (
                    f"import socket; socket.socket(socket.AF_UNIX).connect({str(listener.getsockname())!r})"
                )
                for root in (short_tmp, short_tmp / "own" / "link", Path("/run")):
                    wanted = SandboxIntent(profile, (str(root).encode(),))
                    with pytest.raises((PermissionRefused, InvalidRequest)) as caught:
                        await operator.start(python(code, cwd=b"/", sandbox=wanted))
                    assert caught.value.reason == "root_not_permitted"


async def test_no_connection_outlives_its_share(tmp_path: Path) -> None:
    """Nor one over which nothing was said, or nothing that could be read; others come back by themselves."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(words("sleep", "60", process_id="p"))
            stolen = await shared(owner, tmp_path / "stolen.json", "observer", "p")
            kept = await shared(owner, tmp_path / "kept.json", "observer", "p")
            (share, _) = await owner.shares()
            with _silent(stolen) as monitors, raw(kept) as other:
                assert other.ask("describe", {"id_or_name": "p"}).content["status"] == "ok"
                await owner.revoke(share.share_id)
                for monitor in monitors:
                    assert await asyncio.to_thread(monitor.poll, int(1000 * TIMESCALE)), "it was not cut"
                assert other.ask("describe", {"id_or_name": "p"}).content["status"] == "ok"
            assert await asyncio.to_thread(_beats, kept)


@contextlib.contextmanager
def _silent(info: ConnectionInfo) -> "Iterator[list[zmq.Socket[bytes]]]":
    """Be let in at each socket without a readable word; yield what tells of the end of each connection."""
    with zmq.Context() as context, contextlib.ExitStack() as open_ones:
        monitors = []
        for channel in ("shell", "control", "stdin", "iopub", "hb"):
            sock = open_ones.enter_context(context.socket(zmq.XSUB if channel == "iopub" else zmq.DEALER))
            sock.linger = 0
            secure(sock, info)
            monitor = sock.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
            open_ones.callback(monitor.close, 0)
            open_ones.callback(sock.disable_monitor)
            sock.connect(info.endpoint(channel))
            assert monitor.poll(int(5000 * TIMESCALE))
            monitor.recv_multipart()
            if channel == "control":
                sock.send(b"junk")
            monitors.append(monitor)
        yield monitors


async def test_an_observer_cannot_listen_in_nor_end_what_others_hear(tmp_path: Path) -> None:
    """Two follow at once, by raw XSUB: neither is ever given what the other asked for."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            for name in ("one", "two"):
                await owner.start(python(TICKING, process_id=name))
            first = await shared(owner, tmp_path / "1.json", "observer", "one")
            second = await shared(owner, tmp_path / "2.json", "observer", "two")
            await asyncio.to_thread(_listen_in, first, second)
            process = await owner.attach("one")
            await process.terminate(0.0)


def _listen_in(first: ConnectionInfo, second: ConnectionInfo) -> None:
    wanted = (b"p.one.", b"p.two.", b"p.", b"", b"p.one", b"s.", b"w." + b"x" * 16)
    with follower(first) as one, follower(second) as two:
        for topic in wanted:
            for sub in (one, two):
                sub.send(b"\x01" + topic)
        with ThreadPoolExecutor(2) as both:
            heard = list(both.map(_topics, (one, two)))
        for mine, others, topics in ((b"p.one.", b"p.two.", heard[0]), (b"p.two.", b"p.one.", heard[1])):
            assert any(topic.startswith(mine) for topic in topics)
            assert not any(topic.startswith(others) for topic in topics)
            assert not topics & {b"", b"p.", b"p.one", b"p.two"}
            assert b"w." + b"x" * 16 in topics
        for junk in (b"\x00p.one.", b"\x00", b"\x00p.", b"\x02p.one.", b"", b"\x00p.one.stdout"):
            two.send(junk)
        with follower(second) as short:  # what was refused ends with its connection, for nobody else
            short.send(b"\x01p.one.")
            short.send(b"\x01w." + b"y" * 16)
            assert _topics(short) == {b"w." + b"y" * 16}
        _topics(one, 0.01)
        _wait_for(one, b"p.one.")


async def test_who_asks_for_very_much_in_vain_is_cut_off(tmp_path: Path) -> None:
    """libzmq keeps each refused topic; others go on, and the server's memory does not grow."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(python(TICKING, process_id="p"))
            info = await shared(owner, tmp_path / "f.json", "observer", "p")
            before = server.memory()
            await asyncio.to_thread(_ask_in_vain, info)
            assert server.memory() < before + (32 << 20)
            await asyncio.to_thread(_hears, info)


def _ask_in_vain(info: ConnectionInfo) -> None:
    with zmq.Context() as context, context.socket(zmq.XSUB) as sub:
        secure(sub, info)
        sub.linger = 0
        monitor = sub.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        sub.sndhwm = 0
        sub.connect(info.endpoint("iopub"))
        for number in range(MAX_TOPICS + 1000):
            sub.send(b"\x01p.other-%d." % number)
        assert monitor.poll(int(10_000 * TIMESCALE)), "it is not cut off"
        sub.disable_monitor()
        monitor.close(0)


def _hears(info: ConnectionInfo) -> None:
    with follower(info) as sub:
        sub.send(b"\x01p.p.")
        assert sub.poll(int(5000 * TIMESCALE))


# Frames


async def test_frames_that_make_no_sense_leave_nothing_behind(tmp_path: Path) -> None:
    """Forged, cut, mixed up and repeated: an error or nothing, and others are served on."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(words("sleep", "60", process_id="p"))
            info = await shared(owner, tmp_path / "f.json", "observer", "p")
            await asyncio.to_thread(_throw, info, 2000)
            before, descriptors = server.memory(), server.descriptors()
            await asyncio.to_thread(_throw, info, 2000)
            assert server.memory() < before + (8 << 20)
            assert server.descriptors() <= descriptors + 4
            assert [one.process_id for one in await owner.list_processes()] == ["p"]


def _throw(info: ConnectionInfo, count: int) -> None:
    chance = random.Random(7)
    with raw(info) as client:
        right = [bytes(frame) for frame in client.codec.encode("describe_request", {"id_or_name": "p"})]
        for _ in range(count):
            frames = list(right)
            for _ in range(chance.randrange(1, 4)):
                where = chance.randrange(len(frames)) if frames else 0
                frames[where : where + chance.randrange(2)] = [
                    chance.choice((b"", DELIMITER, chance.randbytes(chance.randrange(64)), *right))
                ]
            client.send(frames)
        client.codec.session = "after"
        client.send(client.codec.encode("describe_request", {"id_or_name": "p"}, msg_id="last"))
        while client.receive().parent.get("msg_id") != "last":
            pass


async def test_reordered_and_repeated_requests_do_what_they_say_once(tmp_path: Path) -> None:
    """A start that comes twice starts once; what comes before its process is told so."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "operator")
            started = await asyncio.to_thread(_repeat, server.info, info)
            assert output_of(await all_events(await owner.attach(started))) == b"once\n"
            assert len(await owner.list_processes()) == 1


def _repeat(local: ConnectionInfo, info: ConnectionInfo) -> str:
    with raw(info) as client:
        line = start_content(local, "echo", "once", cwd=b"/")
        frames = client.codec.encode("start_request", line, msg_id="start")
        signal = {"epoch": local.epoch, "process_id": "not-yet", "signal": 15}
        assert client.ask("signal", signal).content["ename"] == "ProcessNotFound"
        for _ in range(3):
            client.send(frames)
        ids = set()
        with contextlib.suppress(TimeoutError):
            for _ in range(3):
                ids.add(client.receive(seconds=2.0).content["process_id"])
        (process_id,) = ids
        return str(process_id)


# Floods


def _ports(info: ConnectionInfo) -> list[int]:
    return [info.shell_port, info.control_port, info.iopub_port, info.stdin_port, info.hb_port]


def _flood(info: ConnectionInfo, count: int, at_once: int) -> None:
    numbers = map(str, (count, at_once, *_ports(info)))
    subprocess.run([sys.executable, flood.__file__, info.ip, *numbers], check=True)


async def _median(owner: RemoteBackend, count: int = 50) -> float:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        await owner.server_info()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


async def _rounds(server: ServerProcess, info: ConnectionInfo, count: int, at_once: int) -> None:
    """Let strangers come; each round must leave as many descriptors as there were, and no more memory."""
    memory, calm = [], server.descriptors()
    for _ in range(3):
        await asyncio.to_thread(_flood, info, count, at_once)
        await asyncio.to_thread(wait_until, lambda: server.descriptors() <= calm, 15.0)
        memory.append(server.memory())
    print(f"intruders: {calm} descriptors, resident after each round {[kept >> 10 for kept in memory]} KiB")
    assert memory[2] <= memory[1] * 1.02 + (1 << 20)


async def test_three_rounds_of_strangers(tmp_path: Path) -> None:
    """Each leaves what the one before has left, and nobody is let in."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            await _rounds(server, info, 300, 100)
            await _first_request(info)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_three_rounds_of_ten_thousand_strangers(tmp_path: Path) -> None:
    """At most a thousand at a time; an honest request takes less than twice as long while they come."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            calm = await _median(owner, 500)
            rounds = asyncio.ensure_future(_rounds(server, info, 10_000, 1000))
            loaded = []
            while not rounds.done():
                loaded.append(await _median(owner))
            await rounds
            flooded = statistics.median(loaded)
            print(f"intruders: a request takes {calm * 1e6:.0f} us, {flooded * 1e6:.0f} us in a flood")
            assert flooded < 2 * calm
            await _first_request(info)


async def _first_request(info: ConnectionInfo) -> None:
    backend = await RemoteBackend.open(info, 20.0)
    try:
        assert (await backend.server_info()).role == "owner"
    finally:
        await backend.aclose()


def _says(server: ServerProcess, what: str) -> bool:
    return what in server.log.read_text()


async def test_where_descriptors_run_out_the_network_is_given_up_for_a_while(tmp_path: Path) -> None:
    """It says so; the server's own user is served on, and the network is there again when they are back."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (200, 200))
            held = await asyncio.to_thread(flood.hold, info.ip, _ports(info), 300)
            try:
                await asyncio.to_thread(wait_until, lambda: _says(server, "descriptors run out"), 10.0)
                process = await owner.start(shell("echo on"))
                assert output_of(await all_events(process)) == b"on\n"
            finally:
                for one in held:
                    one.close()
            async with deadline(20):
                while True:
                    try:
                        await _first_request(info)
                        break
                    except (ConnectionFailed, RequestTimeout):
                        await asyncio.sleep(0)
            assert server.log.read_text().count("listening on tcp at") >= 2
