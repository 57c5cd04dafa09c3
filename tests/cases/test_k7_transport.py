"""K7: what ZeroMQ, connection files and dying servers do to others, over a server of its own."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.errors import ConnectionFailed, RequestTimeout, ServerLost
from execzmq.protocol.wire import Codec
from execzmq.settings import SERVER_GONE
from tests.commands import all_events, assert_seqs_whole, kinds_of, output_of, shell, words
from tests.raw import raw, start_content
from tests.servers import ServerProcess, serving
from tests.support import TIMESCALE, child, deadline, ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]


@pytest.fixture
def server(no_leaks: None) -> Iterator[ServerProcess]:
    """A server in a process of its own."""
    with serving() as server:
        yield server


# C48, C51, C53: no message lost on its way


async def test_new_topics_on_a_warm_connection_c48(server: ServerProcess) -> None:
    """Ids of the caller's own choice are subscribed late; each tells everything from its first event on."""
    async with server.backend() as backend:
        for number in range(50):
            process = await backend.start(shell("echo one; echo two", process_id=f"own-{number}"))
            events = await all_events(process)
            assert kinds_of(events) == ["started", "output", "exited", "closed"]
            assert_seqs_whole(events)
            assert output_of(events) == b"one\ntwo\n"


def test_two_clients_of_one_identity_c51(server: ServerProcess) -> None:
    """The second is not heard under it; the first, and everyone else, is served on."""
    with raw(server.info, b"same") as first, raw(server.info) as other:
        assert first.ask("info").content["status"] == "ok"
        with raw(server.info, b"same") as second:
            second.send(second.codec.encode("info_request", {}))
            with pytest.raises(TimeoutError):
                second.receive(seconds=0.2)
            assert first.ask("info").content["status"] == "ok"
            assert other.ask("info").content["status"] == "ok"
        assert first.ask("info").content["status"] == "ok"


async def test_a_burst_and_a_lone_request_c53(server: ServerProcess) -> None:
    """All of 10,000 requests that two clients send at once are answered, and so is the next one, at once."""
    async with server.backend() as one, server.backend() as two, deadline(60):
        for _ in range(10):
            asked = [client.server_info() for client in (one, two) for _ in range(500)]
            assert len(await asyncio.gather(*asked)) == 1000
        took = []
        for _ in range(5):
            begin = time.perf_counter()
            await one.server_info()
            took.append(time.perf_counter() - begin)
        assert min(took) < ms(50)


# C54: ends


def test_a_client_of_a_dead_server_ends_c54(server: ServerProcess) -> None:
    """A program that asks a dead server for something, and one that just goes away, are gone in 2 s."""
    path = server.state / "connection.json"
    server.kill()
    code = f"import execzmq\nclient = execzmq.connect({str(path)!r})\n"
    code += "try: client.connect()\nexcept execzmq.ConnectionFailed as e: print(e)"
    begin = time.monotonic()
    done = subprocess.run([*child(code)], capture_output=True, timeout=deadline(20).left(), check=True)
    assert b"no server listens" in done.stdout
    assert time.monotonic() - begin < 2 * TIMESCALE + 1


async def test_the_reply_to_shutdown_arrives_c54(server: ServerProcess) -> None:
    """Last words are sent before the sockets close, and a second client that is left open ends too."""
    async with server.backend(), server.backend() as backend:
        await backend.shutdown()
    assert await asyncio.to_thread(server.wait) == 0


# C56: who may speak


def test_only_signed_requests_do_anything_c56(server: ServerProcess, short_tmp: Path) -> None:
    """No signature, a wrong key, a changed frame, frames that are none: nothing happens, the loop lives."""
    mark = short_tmp / "mark"
    info = server.info
    content = start_content(info, "touch", str(mark))
    with raw(info) as client:
        right = client.codec.encode("start_request", content)
        client.send([right[0], b"", *right[2:]])
        client.send(Codec(b"wrong", "raw-session").encode("start_request", content))
        client.send([*right[:5], bytes(right[5]).replace(b"touch", b"rm   ")])
        client.send([b""])
        client.send([b"<IDS|MSG>"])
        client.send([b"x" * 5_000_000])
        client.send([*right[:2], b"{}", b"{}", b"{}", b"{}"])
        with pytest.raises(TimeoutError):
            client.receive(seconds=0.2)
        statistics = client.ask("info").content["statistics"]
    assert statistics["refused"] + statistics["unreadable"] >= 7
    assert not mark.exists()


def test_a_start_that_is_sent_again_starts_nothing_c56(server: ServerProcess, short_tmp: Path) -> None:
    """An exact copy of an old request gets the old answer."""
    file = short_tmp / "file"
    with raw(server.info) as client:
        content = start_content(server.info, "sh", "-c", f"echo x >> {file}")
        frames = client.codec.encode("start_request", content)
        answers = []
        for _ in range(3):
            client.send(frames)
            answers.append(client.receive().content["process_id"])
        assert len(set(answers)) == 1
        waited = {"process_id": answers[0], "until": "closed", "timeout": 10.0}
        assert client.ask("wait", waited).content["process"]["closed"]
    assert file.read_text() == "x\n"


async def test_the_key_stays_secret_c56(server: ServerProcess) -> None:
    """It is on no command line, in no child's variables, and not in the log."""
    async with server.backend() as backend:
        process = await backend.start(shell("env; cat /proc/*/cmdline", process_id="p"))
        said = output_of(await all_events(process))
    key = server.info.key.encode()
    assert key not in said
    assert key not in server.log.read_bytes()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_is_refused_c56(server: ServerProcess) -> None:
    """Even with the key and a way to the sockets a connection of another user is not let in."""
    info = server.info
    for folder in Path(info.ip).parents:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o711)
    for path in Path(info.ip).parent.iterdir():
        path.chmod(0o777)
    code = f"""
import os, zmq
from zmq.utils.monitor import recv_monitor_message
os.setgid(65534); os.setuid(65534)
with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
    socket.linger = 0
    monitor = socket.get_monitor_socket()
    socket.connect({info.endpoint("shell")!r})
    while True:
        event = recv_monitor_message(monitor)["event"]
        if event in (zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_SUCCEEDED):
            print(event.name.removeprefix("EVENT_"))
            break
    socket.disable_monitor()
    monitor.close()
"""
    done = subprocess.run(
        child(code), capture_output=True, text=True, timeout=deadline(20).left(), check=False
    )
    assert done.stdout == "HANDSHAKE_FAILED_AUTH\n", done.stderr


# C58: connection files


def test_the_file_is_closed_to_others_c58(short_tmp: Path) -> None:
    """Whatever the mask, and where somebody put a link in its place."""
    target = short_tmp / "target"
    runtime = connection.runtime_file("t")
    runtime.parent.mkdir(mode=0o700, exist_ok=True)
    runtime.symlink_to(target)
    before = os.umask(0)
    try:
        with serving() as server:
            for path in (runtime, server.state / "connection.json"):
                assert not path.is_symlink()
                assert path.stat().st_mode & 0o777 == 0o600
            assert Path(server.info.ip).parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    assert not target.exists()
    assert not runtime.exists()


def test_servers_that_start_together_c58() -> None:
    """Each has its own file and sockets; each reader sees a whole file or none."""
    with serving("a") as one, serving("b") as two:
        assert one.info.ip != two.info.ip
        assert one.info.key != two.info.key
        one.close()
        assert not (one.state / "connection.json").exists()
        with raw(two.info) as client:
            assert client.ask("info").content["name"] == "b"


async def test_the_file_of_a_dead_server_c58(server: ServerProcess) -> None:
    """Is a clear error at once."""
    server.kill()
    with pytest.raises(ConnectionFailed, match="no server listens"):
        async with server.backend():
            pass


# C59: dead, busy, new


async def test_a_dead_server_is_told_within_its_time_c59(server: ServerProcess) -> None:
    """Whoever waits learns it after 5 s without a connection."""
    async with server.backend() as backend:
        process = await backend.start(words("sleep", "60"))
        waiting = asyncio.ensure_future(process.wait("exited", 30.0))
        following = asyncio.ensure_future(all_events(process, seconds=30.0))
        await backend.server_info()
        server.kill()
        begin = time.monotonic()
        for one in (waiting, following):
            with pytest.raises(ServerLost):
                await one
        assert SERVER_GONE - 1 < time.monotonic() - begin < SERVER_GONE + 3 * TIMESCALE
    with serving() as second:
        async with second.backend() as backend:
            await backend.shutdown()


async def test_a_stopped_server_is_busy_and_not_dead_c59(server: ServerProcess) -> None:
    """Nobody gives it up; what was asked is answered when it goes on, done once."""
    async with server.backend() as backend:
        server.signal(signal.SIGSTOP)
        pause = await asyncio.create_subprocess_exec("sleep", "2")
        asked = asyncio.ensure_future(backend.start(words("echo", "x", process_id="p")))
        await pause.wait()
        assert not asked.done()
        server.signal(signal.SIGCONT)
        process = await asked
        assert output_of(await all_events(process)) == b"x\n"


async def test_a_new_client_of_a_stopped_server_does_not_wait_for_ever_c59(server: ServerProcess) -> None:
    """It is told that nothing moves there."""
    server.signal(signal.SIGSTOP)
    try:
        from execzmq.client.remote import RemoteBackend

        with pytest.raises((RequestTimeout, ConnectionFailed)):
            await RemoteBackend.open(server.info, 1.0)
    finally:
        server.signal(signal.SIGCONT)


async def test_a_new_server_is_not_taken_for_the_old_c59(server: ServerProcess) -> None:
    """It has another epoch; what was asked of the old one is not silently asked of the new one."""
    async with server.backend() as backend:
        before = await backend.server_info()
        process = await backend.start(words("sleep", "60", process_id="p"))
        server.kill()
        with serving() as second:
            async with deadline(15):
                after = await backend.server_info()
            assert (after.pid, after.epoch != before.epoch) == (second.pid, True)
            listed = {info.process_id: info for info in await backend.list_processes()}
            assert listed["p"].instance == process.instance
            await backend.shutdown()
            assert await asyncio.to_thread(second.wait) == 0
