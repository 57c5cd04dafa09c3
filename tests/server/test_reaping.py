"""A server that is the first process of a PID namespace, as in a container."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.api import connect
from execzmq.client.sync import Client
from execzmq.errors import ServerLost
from tests.commands import is_alive
from tests.servers import SERVE
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.getuid():
    UNSHARE += ["--user", "--map-current-user"]


class Container:
    """A server that is the first in a namespace of its own; `pid` is its number outside."""

    def __init__(self, *options: str) -> None:
        ready, told = os.pipe()
        self._unshare = subprocess.Popen(
            [*UNSHARE, *SERVE, "--name", "t", *options, "--ready-fd", str(told)],
            stdin=subprocess.DEVNULL,
            pass_fds=(told,),
        )
        os.close(told)
        with open(ready, "rb") as file:
            assert select.select([file], [], [], deadline(30).left())[0]
            assert file.readline() == b"ready\n"
        (self.pid,) = children_of(self._unshare.pid)

    def enter(self, line: str) -> None:
        """Run a shell line in there to its end, as `docker exec` does; its parent is outside."""
        inside = ["nsenter", f"--target={self.pid}", "--pid", "--mount", "--preserve-credentials"]
        if os.getuid():
            inside.append("--user")
        done = subprocess.run([*inside, "sh", "-c", line], timeout=deadline(10).left(), check=False)
        assert done.returncode == 0

    def zombies(self) -> list[int]:
        """Return the children of the server that have ended and were not reaped."""
        return [pid for pid in children_of(self.pid) if not is_alive(pid)]

    def end(self, signo: signal.Signals = signal.SIGTERM) -> int:
        """Signal the server; return its status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signo)
        return self._unshare.wait(deadline(20).left())


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


@pytest.fixture
def namespaces() -> None:
    """Say so where none can be made."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace can be made here")


@contextlib.contextmanager
def container() -> Iterator[tuple[Container, Client]]:
    """Have one, and a client outside, meanwhile."""
    server = Container()
    try:
        with connect("t") as client:
            yield server, client
    finally:
        server.end(signal.SIGKILL)


@pytest.mark.usefixtures("namespaces")
def test_orphans_of_others_are_reaped() -> None:
    """Of programs that came from outside; those of a command are its keeper's."""
    with container() as (server, client):
        assert connection.load(connection.find("t")).pid == 1
        assert client.info().pid == 1
        (keeper,) = children_of(server.pid)
        server.enter("(sleep 0.3 &)")
        wait_until(lambda: len(children_of(server.pid)) == 2)
        wait_until(lambda: children_of(server.pid) == [keeper])
        process = client.start("sh -c 'sleep 1000 & echo $!'; exec cat", stdin=True)
        process.read(1, wait=5.0)
        wait_until(lambda: len(children_of(keeper)) == 2)
        assert children_of(server.pid) == [keeper]
        assert process.kill().survivors == ()


@pytest.mark.usefixtures("namespaces")
def test_those_whom_a_dead_keeper_leaves_are_reaped() -> None:
    """The commands and the keeper itself; the server gets another keeper."""
    with container() as (server, client):
        client.start(["sleep", "1000"])
        (keeper,) = children_of(server.pid)
        (command,) = children_of(keeper)
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: command in children_of(server.pid) or not is_alive(command))
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{command}").exists() and not Path(f"/proc/{keeper}").exists())
        wait_until(lambda: not server.zombies())
        wait_until(lambda: _can_run(client))


def _can_run(client: Client) -> bool:
    """Tell whether a command can be run; not while the server has no keeper."""
    try:
        return bool(client.run(["echo", "x"]).stdout == b"x\n")
    except ServerLost:
        return False


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_it_heeds_signals(signo: signal.Signals) -> None:
    """The kernel would drop them for the first process; all ends in order, with status 0."""
    with container() as (server, client):
        process = client.start("trap 'echo last; exit 3' TERM; echo up; while :; do sleep 0.1; done")
        assert next(process.lines()) == "up"
        waiting = client.attach(process.process_id)
        assert server.end(signo) == 0
        assert waiting.process_id == process.process_id


@pytest.mark.usefixtures("namespaces")
def test_nobody_replaces_it_from_inside() -> None:
    """All others in the namespace, the new server too, would end with the old one."""
    with container() as (server, client):
        words = " ".join([*SERVE, "--name", "t", "--replace"])
        log = Path(os.environ["HOME"]) / "said"
        server.enter(f"{words} 2> {log}; test $? = 125")
        assert b"restart its container" in log.read_bytes()
        assert client.info().pid == 1


def test_another_is_not_the_first() -> None:
    """Its children are its own to wait for."""
    code = (
        "import asyncio, signal\nfrom execzmq.server.reaping import be_first\n"
        "async def main():\n    be_first()\n    print(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)\n"
        "asyncio.run(main())"
    )
    assert _said(code) == "True\n"


def test_all_are_reaped() -> None:
    """However many have ended, and where none has."""
    code = (
        "import os\nfrom execzmq.server.reaping import reap_all\nreap_all()\n"
        "for _ in range(5): os.fork() or os._exit(0)\n"
        "try:\n    while True:\n        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n        reap_all()\n"
        "except ChildProcessError: print('none')"
    )
    assert _said(code) == "none\n"


def _said(code: str) -> str:
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=20, check=True).stdout
