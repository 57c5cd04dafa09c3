"""What is known to go wrong with sandboxes, through a real server: ends, threads, memory, terminals."""

import asyncio
import os
import pty
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from execzmq import connection
from execzmq.client.remote import RemoteBackend
from tests.commands import all_events, end_of, output_of, until_output
from tests.escapes.attempts import HOST, MINIMAL, PLAIN
from tests.escapes.making import PYTHON, Home, params
from tests.escapes.site import Site, site
from tests.servers import SERVE
from tests.support import deadline, wait_until

pytestmark = pytest.mark.slow

BASES = pytest.mark.parametrize("mode", [HOST, MINIMAL])
TERMINALS = pytest.mark.parametrize("tty", [False, True], ids=["pipe", "pty"])


def running(folder: Path) -> list[int]:
    """Return the processes whose working directory is in a folder."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd").startswith(str(folder)):
                found.append(int(name))
        except OSError:
            continue
    return found


@BASES
@TERMINALS
def test_kill_at_once_leaves_nothing_c66(home: Home, mode: str, tty: bool) -> None:
    """A command that is ended as soon as it has started is gone with all that it began."""
    with site() as target:
        asyncio.run(_kill_at_once(home, target, mode, tty))
        wait_until(lambda: not running(target.ws))


async def _kill_at_once(home: Home, target: Site, mode: str, tty: bool) -> None:
    wanted = params(target, home.wish(target, mode), "sh", "-c", "sleep 6067 & sleep 6068 & wait", tty=tty)
    async with home.server.backend() as backend:
        for ends_first in (True, False, True, False):
            process = await backend.start(wanted)
            if ends_first:
                await process.signal("KILL")
            await process.terminate(grace=0.0)
            assert end_of(await all_events(process)).signal == signal.SIGKILL


@BASES
@TERMINALS
def test_life_is_not_that_of_a_thread_c67(home: Home, mode: str, tty: bool) -> None:
    """A command lives on when the thread that has asked for it, and its client, are long gone."""
    with site() as target:
        line = "while [ ! -e go ]; do sleep 0.02; done; echo > done"
        wanted = params(target, home.wish(target, mode), "sh", "-c", line, tty=tty)
        thread = threading.Thread(target=lambda: asyncio.run(_start(home, wanted)))
        thread.start()
        thread.join()
        (target.ws / "go").touch()
        wait_until((target.ws / "done").exists)
        wait_until(lambda: not running(target.ws))


async def _start(home: Home, wanted: object) -> None:
    async with home.server.backend() as backend:
        await backend.start(wanted)  # type: ignore[arg-type]  # parameters


SHARED = """
import multiprocessing, os, sys
multiprocessing.Semaphore().release()
open("/dev/shm/execzmq-" + sys.argv[1], "w").close()
open(sys.argv[1], "w").close()
import time
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
print(sorted(os.listdir("/dev/shm")))
"""


@BASES
@TERMINALS
def test_shared_memory_is_the_commands_own_c74(home: Home, mode: str, tty: bool) -> None:
    """Semaphores work, and two sandboxes at once do not see each other's shared memory, nor the host's."""
    with site() as target:
        found = asyncio.run(_share(home, target, mode, tty))
        assert [text.strip() for text in found] == [b"['execzmq-one']", b"['execzmq-two']"]
        assert not {"execzmq-one", "execzmq-two"} & set(os.listdir("/dev/shm"))


async def _share(home: Home, target: Site, mode: str, tty: bool) -> list[bytes]:
    wish = home.wish(target, mode)
    async with home.server.backend() as backend:
        both = [
            await backend.start(params(target, wish, *PYTHON, "-c", SHARED, *names, tty=tty))
            for names in (("one", "two"), ("two", "one"))
        ]
        return [output_of(await all_events(process)) for process in both]


INJECT = """
import fcntl, os, termios
for path in ("/dev/tty", "/dev/stdin", "/dev/stderr"):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        for letter in b"LEAK\\n":
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([letter]))
        print("typed", path)
    except OSError as error:
        print(path, error)
"""


WAIT = """
trap 'echo INT >> ended' INT
trap 'echo TERM >> ended; exit' TERM
echo ready
while :; do sleep 0.02; done
"""


@contextmanager
def server_at_a_terminal(found: Site) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run a server whose terminal is ours; give the terminal's other end."""
    ours, theirs = pty.openpty()
    reader, writer = os.pipe()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.environ.items():
            patch.setenv(name, value)
        process = subprocess.Popen(
            ["setsid", "-c", *SERVE, "--name", "t", "--ready-fd", str(writer)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            pass_fds=(writer,),
        )
    os.close(writer)
    os.close(theirs)
    try:
        with os.fdopen(reader, "rb") as file:
            assert file.readline() == b"ready\n"
        yield ours, process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(deadline(15).left())
        os.close(ours)


def seen_at(terminal: int) -> bytes:
    """Return what was written to, or typed into and echoed by, a terminal."""
    data = b""
    while select.select([terminal], [], [], 0)[0]:
        try:
            data += os.read(terminal, 65536)
        except OSError:
            break
    return data


def test_terminal_of_the_server_is_out_of_reach_c75() -> None:
    """Commands neither write to it nor type into it, and the interrupt key there does not signal them."""
    with site() as found, server_at_a_terminal(found) as (terminal, server):
        info = connection.load(next((found.top / "s").rglob("connection.json")))
        for mode in (HOST, MINIMAL, PLAIN):
            texts = asyncio.run(_reach(info, found, mode))
            assert b"No such device or address" in texts[0]
            assert b"typed" not in texts[1]
        assert b"LEAK" not in seen_at(terminal)
        os.write(terminal, b"\x03")
        server.wait(deadline(20).left())
        assert (found.ws / "ended").read_text().split() == ["TERM", "TERM", "TERM"]


async def _reach(info: connection.ConnectionInfo, found: Site, mode: str) -> list[bytes]:
    home = Home(found, None, [])  # type: ignore[arg-type]  # the server is not that of a test
    wish = home.wish(found, mode)
    backend = await RemoteBackend.open(info, 20.0)
    try:
        attempts = (("sh", "-c", "echo LEAK >/dev/tty"), (*PYTHON, "-c", INJECT))
        started = [await backend.start(params(found, wish, *argv)) for argv in attempts]
        texts = [output_of(await all_events(process)) for process in started]
        await until_output(await backend.start(params(found, wish, "sh", "-c", WAIT)), b"ready")
        return texts
    finally:
        await backend.aclose()
