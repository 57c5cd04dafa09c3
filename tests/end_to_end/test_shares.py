"""Shares over tcp: what their holders may, see and follow, until they end; a server of its own each time."""

import asyncio
import contextlib
import json
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execzmq.client import sharing
from execzmq.client.aio import AsyncClient
from execzmq.client.remote import RemoteBackend
from execzmq.connection import ConnectionInfo, host_id
from execzmq.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ExecZMQError,
    InvalidRequest,
    PermissionRefused,
    ProcessNotFound,
    ServerLost,
    ShareNotFound,
)
from execzmq.types.events import Closed, Output
from execzmq.types.params import SandboxIntent
from execzmq.types.sharing import ShareTerms
from tests.commands import all_events, assert_seqs_whole, end_of, output_of, python, shell, words
from tests.servers import ServerProcess, serving
from tests.shares import shared
from tests.support import deadline

pytestmark = pytest.mark.slow

HERE = ("--ip", "127.0.0.1")
TICKING = "import time\nfor n in range(10**6): print(n, flush=True); time.sleep(0.01)"


@contextlib.asynccontextmanager
async def guest(info: ConnectionInfo) -> AsyncIterator[RemoteBackend]:
    """Be the holder of a file."""
    backend = await RemoteBackend.open(info, 20.0)
    try:
        yield backend
    finally:
        await backend.aclose()


async def _first_output(backend: RemoteBackend, process_id: str) -> None:
    process = await backend.attach(process_id)
    async for event in process.subscribe_events():
        if isinstance(event, Output):
            return


async def test_an_observer_watches_what_it_was_given_and_nothing_else(tmp_path: Path) -> None:
    """Live, from the log and by name; it acts on nothing and learns nothing of the rest."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(shell("echo hidden; sleep 60", process_id="other"))
            code = "input()\nprint('a')\nraise SystemExit(3)"
            given = await owner.start(python(code, process_id="given", name="g", stdin="pipe"))
            info = await shared(owner, tmp_path / "f.json", "observer", "g")
            async with guest(info) as watcher:
                assert not watcher.is_local
                process = await watcher.attach("g")
                following = asyncio.ensure_future(all_events(process))
                await given.write(b"\n", end=True)
                events = await following
                assert_seqs_whole(events)
                assert output_of(events) == b"a\n"
                assert end_of(events).exit_code == 3
                (seen,) = await watcher.list_processes()
                assert (seen.process_id, seen.argv, seen.cwd, seen.state) == ("given", (), b"", "closed")
                assert (await watcher.server_info()).role == "observer"
                assert (await watcher.server_info()).statistics == {}
                for call in (watcher.attach("other"), watcher.attach("nobody")):
                    with pytest.raises(ProcessNotFound):
                        await call
                for refused in (
                    watcher.start(words("true")),
                    watcher.shutdown(),
                    watcher.shares(),
                    watcher.profiles(),
                    watcher.revoke("x"),
                    process.write(b"x"),
                    process.signal("TERM"),
                    process.terminate(0.0),
                    process.forget(),
                ):
                    with pytest.raises(PermissionRefused):
                        await refused


async def test_what_an_observer_must_not_know_is_in_no_event(tmp_path: Path) -> None:
    """Who holds the output open has a command line; the owner is told it, live, the observer is not."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            line = "sleep 987 & echo up"
            own = await owner.start(shell(line, process_id="p", stdin="null", drain_limit=0.1))
            info = await shared(owner, tmp_path / "f.json", "observer", "p")
            async with guest(info) as watcher:
                mine, theirs = await asyncio.gather(all_events(own), all_events(await watcher.attach("p")))
                assert end_of(mine).held_open_by
                assert end_of(theirs).exit_code == 0
                assert "987" not in repr(theirs)
                assert "987" not in repr(await (await watcher.attach("p")).info())


async def test_an_operator_starts_confined_commands_and_acts_on_them(tmp_path: Path) -> None:
    """And on what it was given; the rest is not there for it."""
    root = tmp_path / "root"
    root.mkdir()
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(words("sleep", "60", process_id="other", name="taken"))
            given = await owner.start(words("cat", process_id="given", stdin="pipe"))
            sandbox = SandboxIntent("", (bytes(root),))
            info = await shared(owner, tmp_path / "f.json", "operator", "given", sandbox=sandbox)
            async with guest(info) as operator:
                assert {one.process_id for one in await operator.list_processes()} == {"given"}
                command = f"echo in > {root}/in; echo out > {tmp_path}/out"
                process = await operator.start(shell(command, cwd=bytes(root)))
                await all_events(process)
                assert (root / "in").read_text() == "in\n"
                assert not (tmp_path / "out").exists()
                info_of = await process.info()
                assert info_of.sandbox is not None
                assert info_of.sandbox["profile"] == "workspace-write"
                reached = await operator.attach("given")
                await reached.write(b"from afar", end=True)
                assert output_of(await all_events(given)) == b"from afar"
                assert (await operator.attach(process.process_id)).instance == process.instance
                for wish in (
                    SandboxIntent("full-access"),
                    SandboxIntent("", (b"/etc",)),
                    SandboxIntent("", (bytes(tmp_path),)),
                ):
                    with pytest.raises(PermissionRefused):
                        await operator.start(words("true", sandbox=wish))
                with pytest.raises(InvalidRequest, match="begin with"):
                    await operator.start(words("true", process_id="mine"))
                with pytest.raises(ProcessNotFound):
                    await operator.attach("taken")
                with pytest.raises(InvalidRequest, match="id of a share"):
                    await owner.start(words("true", process_id=f"{process.process_id}-x"))
                named = next(one for one in await operator.profiles() if one.is_default)
                assert named.fields["workspaces"] == [bytes(root)]


async def test_variables_of_the_server_are_not_an_operator_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever policy it asks for."""
    from execzmq.types.params import EnvPolicy

    monkeypatch.setenv("MY_TOKEN", "hush")
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "operator")
            async with guest(info) as operator:
                for policy in (None, EnvPolicy("all"), EnvPolicy("profile")):
                    process = await operator.start(words("env", cwd=b"/", env_policy=policy))
                    said = output_of(await all_events(process))
                    assert b"PATH=" in said
                    assert b"hush" not in said


async def test_nothing_of_the_caller_is_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its variables nor its folder, whatever the file says of the host and the role."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
        monkeypatch.setenv("MY_TOKEN", "hush")
        monkeypatch.chdir(tmp_path)
        crafted = replace(info, host=host_id(), role="owner", epoch="e", pid=1)
        async with guest(crafted) as backend, AsyncClient(backend) as client:
            done = await client.run("env; pwd", text=True)
    assert "PATH=" in done.stdout
    assert "hush" not in done.stdout
    assert str(tmp_path) not in done.stdout


async def test_a_file_that_cannot_be_hidden_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without modes, or with no room: there is no share then, and no half of a file."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            for error in (ConnectionFailed("the file system of f cannot hide a file"), OSError(28, "full")):
                with monkeypatch.context() as patch:
                    patch.setattr(sharing, "write_connection_file", _raiser(error))
                    with pytest.raises(ConnectionFailed, match="cannot"):
                        await owner.share(ShareTerms("owner"), tmp_path / "f.json")
                assert await owner.shares() == []
                assert not (tmp_path / "f.json").exists()


def _raiser(error: Exception) -> Any:
    def refuse(*_: object) -> None:
        raise error

    return refuse


async def test_a_revoked_share_is_refused_at_once_and_cut(tmp_path: Path) -> None:
    """Within a second, requests that wait included; another that follows the same goes on whole."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(python(TICKING, process_id="p"))
            one = await shared(owner, tmp_path / "one.json", "observer", "p")
            two = await shared(owner, tmp_path / "two.json", "observer", "p")
            async with guest(one) as first, guest(two) as second:
                await asyncio.gather(_first_output(first, "p"), _first_output(second, "p"))
                followed: list[Any] = []
                waiting = asyncio.ensure_future(_follow(first, "p", followed))
                others: list[Any] = []
                going_on = asyncio.ensure_future(_follow(second, "p", others))
                while len(followed) < 20:
                    await asyncio.sleep(0)
                    await asyncio.wait([waiting, going_on], timeout=0.05)
                (share, _) = await owner.shares()
                await owner.revoke(share.share_id)
                at, count = time.monotonic(), len(others)
                with pytest.raises(ExecZMQError):
                    await first.list_processes()
                with pytest.raises(ExecZMQError) as caught:
                    async with deadline(10):
                        await waiting
                assert isinstance(caught.value, AuthenticationFailed | PermissionRefused | ServerLost)
                assert time.time() - followed[-1].time > time.monotonic() - at - 1.0
                while len(others) < count + 50:
                    await asyncio.wait([going_on], timeout=0.05)
                assert [event.seq for event in others] == list(range(1, len(others) + 1))
                going_on.cancel()
                await asyncio.wait([going_on])
            with pytest.raises(AuthenticationFailed):
                await RemoteBackend.open(one, 20.0)
            with pytest.raises(ShareNotFound):
                await owner.revoke(share.share_id)


async def _follow(backend: RemoteBackend, process_id: str, into: list[Any]) -> None:
    process = await backend.attach(process_id)
    async for event in process.subscribe_events():
        into.append(event)
        if isinstance(event, Closed):
            return


async def test_a_share_ends_at_its_time(tmp_path: Path) -> None:
    """As if it were revoked then; the server listens no more when nobody is left to come in."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(python(TICKING, process_id="p"))
            info = await shared(owner, tmp_path / "f.json", "observer", "p", expires=1.5)
            begun = time.monotonic()
            async with guest(info) as watcher:
                followed: list[Any] = []
                with pytest.raises(ExecZMQError):
                    async with deadline(15):
                        await _follow(watcher, "p", followed)
                assert followed[-1].time - followed[0].time < 3.0
                assert time.monotonic() - begun > 1.0
            assert await owner.shares() == []
            async with deadline(5):
                while _listens(info):
                    await owner.server_info()
        did = [json.loads(line)["did"] for line in (server.state / "audit.log").read_text().splitlines()]
        assert did == ["share", "connect", "expire"]


def _listens(info: ConnectionInfo) -> bool:
    try:
        socket.create_connection((info.ip, info.shell_port), 1.0).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("how", ["kill", "replace"])
async def test_shares_survive_the_server(tmp_path: Path, how: str) -> None:
    """The file leads to the next server of that name; what was revoked stays so; a watcher goes on."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            await owner.start(python(TICKING, process_id="p"))
            info = await shared(owner, tmp_path / "f.json", "observer", "p")
            gone = await shared(owner, tmp_path / "gone.json", "observer", "p")
            await owner.revoke((await owner.shares())[1].share_id)
        async with guest(info) as watcher:
            followed: list[Any] = []
            following = asyncio.ensure_future(_follow(watcher, "p", followed))
            while len(followed) < 10:
                await asyncio.wait([following], timeout=0.05)
            if how == "kill":
                server.kill()
            options = HERE if how == "kill" else (*HERE, "--replace")
            second = await asyncio.to_thread(ServerProcess, "t", options)
            try:
                count = len(followed)
                async with deadline(15):
                    while len(followed) < count + 100:
                        await asyncio.wait([following], timeout=0.05)
                assert [event.seq for event in followed] == list(range(1, len(followed) + 1))
                with pytest.raises(AuthenticationFailed):
                    await RemoteBackend.open(gone, 20.0)
                following.cancel()
                await asyncio.wait([following])
            finally:
                second.close()


async def test_the_state_of_the_network_is_the_owner_s_alone(tmp_path: Path) -> None:
    """Mode 0600; no secret of the server is in a file that is handed out, nor its holder's on the server."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            async with guest(info) as other:
                assert (await other.server_info()).role == "owner"
                await other.shares()
        for name in ("network.json", "audit.log"):
            assert stat.S_IMODE((server.state / name).stat().st_mode) == 0o600
        secret = json.loads((server.state / "network.json").read_text())["secretkey"]
        handed = (tmp_path / "f.json").read_text()
        assert secret not in handed
        assert server.info.key not in handed
        kept = "".join(path.read_text(errors="replace") for path in server.state.glob("*") if path.is_file())
        assert info.curve_secretkey not in kept
        assert secret not in server.log.read_text()


async def test_signals_of_a_second_server_and_other_addresses(tmp_path: Path) -> None:
    """IPv6 as well; a server that is told to listens from the start and goes on without a share."""
    if not socket.has_ipv6 or not _has_ipv6_loopback():
        pytest.skip("no IPv6 loopback here")
    with serving("t", "--transport", "tcp", "--ip", "::1") as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            assert info.ip == "::1"
            async with guest(info) as other:
                process = await other.start(words("echo", "six"))
                assert output_of(await all_events(process)) == b"six\n"
                assert await other._connection.heart_beats()
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait) == 0


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def test_without_curve_the_key_decides_and_nothing_is_shared(tmp_path: Path) -> None:
    """Requests are signed and their buffers digested; who has the key is the owner."""
    from execzmq.connection import load

    with serving("t", "--transport", "tcp", *HERE, "--insecure") as server:
        info = load(server.state / "connection-tcp.json")
        assert (info.transport, info.curve_serverkey) == ("tcp", "")
        async with server.backend() as owner, guest(info) as other:
            process = await other.start(words("cat", stdin="data", stdin_data=b"x" * 100_000))
            assert output_of(await all_events(process)) == b"x" * 100_000
            assert output_of(await all_events(await owner.attach(process.process_id))) == b"x" * 100_000
            with pytest.raises(ExecZMQError, match="without CURVE"):
                await owner.share(ShareTerms("owner"), tmp_path / "f.json")
            assert not (tmp_path / "f.json").exists()
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait) == 0
        assert not (server.state / "connection-tcp.json").exists()


async def test_its_ports_are_kept_for_those_who_have_a_file(tmp_path: Path) -> None:
    """Where another has one of them by now, it waits for that; while nobody needs them it takes others."""
    with serving("t", *HERE) as server:
        async with server.backend() as owner:
            info = await shared(owner, tmp_path / "f.json", "owner")
            server.kill()
    with socket.create_server(("127.0.0.1", info.stdin_port)) as taken, serving("t", *HERE) as server:
        async with server.backend() as owner:
            assert "cannot listen on tcp" in server.log.read_text()
            with pytest.raises(ConnectionFailed, match="end what has its ports"):
                await owner.share(ShareTerms("owner"), tmp_path / "g.json")
            taken.close()
            async with deadline(10):
                while True:
                    if _listens(info):
                        break
                    await owner.server_info()
            async with guest(info) as other:
                assert (await other.server_info()).role == "owner"
            await owner.revoke((await owner.shares())[0].share_id)
            async with deadline(10):
                while _listens(info):
                    await owner.server_info()
            with socket.create_server(("127.0.0.1", info.stdin_port)):
                assert (await shared(owner, tmp_path / "h.json", "owner")).stdin_port != info.stdin_port
