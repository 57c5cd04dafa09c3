"""A listener in a sandbox's own network: who reaches it, who may have one, and whose it is afterwards."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import execzmq
from execzmq.keeper.channel import Packet
from execzmq.keeper.client import KeeperLost
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.messages import encode, error_message
from tests.keeper.gates import BWRAP, PORT, Gate
from tests.keeper.harness import Harness, keeper, launch
from tests.support import deadline, wait_until

# setpriv itself may still execute what the user may not: `env` may not any more.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env"]
CONNECT = f"""
import socket
with socket.create_connection(("127.0.0.1", {PORT})) as peer:
    print(peer.recv(9).decode())
"""
REACHED = "reached\nreached\nConnectionRefusedError\n"

pytestmark = pytest.mark.skipif(not os.path.exists(BWRAP), reason="bubblewrap is not installed")


@pytest.fixture
def for_everyone() -> Iterator[Path]:
    """A folder that every user can read, with the keeper and the program of the tests in it."""
    with tempfile.TemporaryDirectory(prefix="xz-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(Path(execzmq.__file__).with_name("keeper"), folder / "execzmq/keeper")
        shutil.copy(Path(__file__).with_name("gates.py"), folder)
        for path in folder.rglob("*"):
            path.chmod(0o755)
        yield folder


def interpreter_for(user: list[str]) -> str:
    """Return a Python that this user can run: the tests' own may lie in somebody's home."""
    for program in (sys.executable, "/usr/bin/python3"):
        argv = [*user, program, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        done = subprocess.run(argv, stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            return program
    pytest.skip("no interpreter that another user can run")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--disable-userns"]], ids=["plain", "disable-userns"])
@pytest.mark.parametrize("user", [[], NOBODY], ids=["self", "nobody"])
def test_command_inside_reaches_the_listener_and_nothing_else(
    for_everyone: Path, user: list[str], options: list[str]
) -> None:
    """Escape 79: 127.0.0.1 and ::1 lead to the listener, whoever the server is."""
    if user and os.geteuid() != 0:
        pytest.skip("only root can be another user")
    env = {"PYTHONPATH": str(for_everyone), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*user, interpreter_for(user), str(for_everyone / "gates.py"), *options],
        env=env,
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        timeout=deadline(30).left(),
        check=False,
    )
    assert (done.stdout, done.returncode) == (REACHED, 0)


async def spawned(own: Harness) -> None:
    """Have a command with which a listener can be held."""
    (await own.client.spawn(launch("sleep", "60"))).close()


async def test_next_server_is_given_the_listener(short_tmp: Path) -> None:
    """It is held under the name `proxy` and outlives the server, with who has connected meanwhile."""
    with Gate(sys.executable, "-c", CONNECT) as gate:
        first = Harness()
        await first.connect(short_tmp, "keep")
        await spawned(first)
        os.close(await first.client.listen("p", gate.pidfd, PORT))
        first.client.close()
        said = asyncio.create_task(asyncio.to_thread(gate.release))
        async with keeper(short_tmp) as own:
            with socket.socket(fileno=own.found["p"].fds.pop("proxy")) as listener:
                assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                assert listener.getsockname()[1] == PORT
                listener.setblocking(False)
                peer, _ = await asyncio.get_running_loop().sock_accept(listener)
                with peer:
                    peer.send(b"late")
            assert await said == "late\n"
        await first.reap()


async def test_listener_goes_with_its_command(short_tmp: Path) -> None:
    """Forgotten, the command leaves no socket in the keeper."""
    with Gate("true") as gate:
        async with keeper(short_tmp) as own:
            before = own.fd_count()
            await spawned(own)
            with_command = own.fd_count()
            os.close(await own.client.listen("p", gate.pidfd, PORT))
            assert own.fd_count() == with_command + 1
            own.client.abandon("p")
            await asyncio.to_thread(wait_until, lambda: own.fd_count() == before)


async def test_a_second_one_of_the_same_port_is_refused(short_tmp: Path) -> None:
    """The error names the step and the port."""
    with Gate("true") as gate:
        async with keeper(short_tmp) as own:
            await spawned(own)
            os.close(await own.client.listen("p", gate.pidfd, PORT))
            with pytest.raises(SpawnError, match="port 3128: Address already in use") as refused:
                await own.client.listen("p", gate.pidfd, PORT)
            assert refused.value.reason == "listen_failed"


async def test_the_hosts_own_network_is_never_listened_on(short_tmp: Path) -> None:
    """A process without a network of its own gets no listener: it would be the host's."""
    async with keeper(short_tmp) as own:
        await spawned(own)
        pidfd = os.pidfd_open(os.getpid())
        with pytest.raises(SpawnError) as refused:
            await own.client.listen("p", pidfd, PORT)
        os.close(pidfd)
        assert refused.value.reason == "host_network"


async def test_a_process_that_has_ended_has_no_network(short_tmp: Path) -> None:
    """Its number, whoever has it next, is never entered."""
    with Gate("true") as gate:
        async with keeper(short_tmp) as own:
            await spawned(own)
            await asyncio.to_thread(gate.release)
            with pytest.raises(SpawnError) as refused:
                await own.client.listen("p", gate.pidfd, PORT)
            assert refused.value.reason == "ended"


async def test_what_cannot_be_asked_for(short_tmp: Path) -> None:
    """Another descriptor than a pidfd, a port that is none, and a command that is not there have names."""
    async with keeper(short_tmp) as own:
        await spawned(own)
        pidfd = os.pidfd_open(os.getpid())
        for process_id, fd, port, reason in (
            ("p", 0, PORT, "invalid_descriptor"),
            ("p", pidfd, 0, "bad_message"),
            ("p", pidfd, 65_536, "bad_message"),
            ("nobody", pidfd, PORT, "unknown_process"),
            ("p", 10**6, PORT, "listen_failed"),
        ):
            with pytest.raises(SpawnError) as refused:
                await own.client.listen(process_id, fd, port)
            assert refused.value.reason == reason
        os.close(pidfd)


async def test_two_at_once_of_one_command_are_a_mistake(short_tmp: Path) -> None:
    """A command has one listener to wait for; cancelled, its descriptor is closed here."""
    with Gate("true") as gate:
        async with keeper(short_tmp) as own:
            await spawned(own)
            before = len(os.listdir("/proc/self/fd"))
            first = own.client.listen("p", gate.pidfd, PORT)
            with pytest.raises(ValueError, match="under way"):
                own.client.listen("p", gate.pidfd, PORT)
            first.cancel()
            while own.client._pending.listeners:
                await own.settle()
            assert len(os.listdir("/proc/self/fd")) == before


async def test_lost_keeper_fails_who_waits(short_tmp: Path) -> None:
    """A listener that will not come is told as every answer is."""
    async with keeper(short_tmp) as own:
        os.kill(own.client.pid, signal.SIGSTOP)
        pidfd = os.pidfd_open(os.getpid())
        waiting = own.client.listen("p", pidfd, PORT)
        os.close(pidfd)
        os.kill(own.client.pid, signal.SIGKILL)
        with pytest.raises(KeeperLost):
            await waiting


async def test_older_keeper_is_named_as_such(short_tmp: Path) -> None:
    """One that does not know the request says so, and the error says what helps."""
    unknown = error_message("listen", "p", SpawnError("unknown_op", None, "op 'listen' is not known here"))
    async with keeper(short_tmp) as own:
        os.kill(own.client.pid, signal.SIGSTOP)
        pidfd = os.pidfd_open(os.getpid())
        waiting = own.client.listen("p", pidfd, PORT)
        os.close(pidfd)
        own.client._take(Packet(encode(unknown), [], False))
        with pytest.raises(SpawnError, match=r"older version.*execzmq shutdown"):
            await waiting
        os.kill(own.client.pid, signal.SIGCONT)
