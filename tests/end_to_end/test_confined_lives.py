"""Sandboxed commands through several servers: their network, their limits, and their log as of any other."""

import asyncio
import contextlib
import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from execzmq.types.events import Event, Notice
from execzmq.types.params import ExecParams, SandboxIntent
from tests.commands import (
    all_events,
    assert_offsets_whole,
    assert_seqs_whole,
    end_of,
    output_of,
    until_output,
    words,
)
from tests.end_to_end.test_crashes import keepers_of
from tests.lives import lives
from tests.support import wait_until

pytestmark = pytest.mark.slow

ASK = """
exec 3<>/dev/tcp/127.0.0.1/3128
printf 'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' "$1" "$1" >&3
read -r -t 20 line <&3
echo "$2 $line"
exec 3<&-
"""


@pytest.fixture
def root(home_root: Path) -> Path:
    """A folder that sandboxed commands may write to."""
    folder = home_root / "ws"
    folder.mkdir()
    return folder


def confined(root: Path, script: str, **more: Any) -> ExecParams:
    """Return the start of a bash script in a sandbox with a proxy."""
    intent = SandboxIntent(
        "workspace-write", (os.fsencode(root),), network="proxy", allowed_hosts=("a.example",)
    )
    return words("bash", "-c", script, sandbox=intent, cwd=os.fsencode(root), **more)


def denials(events: list[Event]) -> list[str]:
    """Return the hosts of which was told that they are refused."""
    return [event.data["host"] for event in events if isinstance(event, Notice)]


async def test_a_proxy_goes_on_under_the_next_server(root: Path) -> None:
    """A request that comes while no server lives is answered by the next, and what it refuses is told."""
    script = f"""
ask() {{ {ASK} }}
ask one.example:443 first; echo ready
until [ -e go ]; do sleep 0.01; done
touch going
ask two.example:443 second
read x
ask three.example:443 third
"""
    with lives() as server:
        async with server.now.backend() as backend:
            process = await backend.start(confined(root, script, process_id="p", stdin="pipe"))
            await until_output(process, b"ready")
        server.die()
        (root / "go").touch()
        await asyncio.to_thread(wait_until, (root / "going").exists)
        await asyncio.to_thread(server.begin)
        async with server.now.backend() as backend:
            process = await backend.attach("p")
            await until_output(process, b"second")
        await asyncio.to_thread(server.replace)
        async with server.now.backend() as backend:
            process = await backend.attach("p")
            await process.write(b"go on\n")
            events = await all_events(process)
    answers = output_of(events, "stdout").decode().splitlines()
    assert [line.split()[0] for line in answers] == ["first", "ready", "second", "third"]
    assert all("403" in line for line in answers if line != "ready"), answers
    assert denials(events) == ["one.example", "two.example", "three.example"]
    assert_seqs_whole(events)
    assert end_of(events).exit_code == 0


async def test_a_proxy_outlives_keeper_and_server(root: Path) -> None:
    """The next keeper holds the listener too."""
    script = f"ask() {{ {ASK} }}; echo ready; read x; ask one.example:443 first"
    with lives() as server:
        async with server.now.backend() as backend:
            process = await backend.start(confined(root, script, process_id="p", stdin="pipe"))
            await until_output(process, b"ready")
            before = keepers_of(server.now.state)
            os.kill(before[0], signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: _is_held_by_another(server.now.state, before[0]))
        await asyncio.to_thread(server.die_and_begin)
        async with server.now.backend() as backend:
            process = await backend.attach("p")
            await process.write(b"go on\n")
            events = await all_events(process)
    assert b"first HTTP/1.1 403" in output_of(events)


def _is_held_by_another(state: Path, before: int) -> bool:
    """Tell whether another keeper holds a listener."""
    for keeper in keepers_of(state):
        folder = f"/proc/{keeper}/fd"
        with contextlib.suppress(FileNotFoundError):
            links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
            if keeper != before and links.count("anon_inode:[pidfd]") == PIDFDS:
                return True
    return False


PIDFDS = 3
"""Of a sandboxed command: the wrapper, the first process and the command."""


@pytest.mark.parametrize("tty", [False, True])
async def test_a_log_is_as_that_of_a_plain_command(root: Path, tty: bool) -> None:
    """Bytes, offsets and seqs are whole over kills and replacements, and the same with and without."""
    script = "for i in {1..4000}; do echo line $i; [ $((i % 100)) = 0 ] && sleep 0.02; done; exit 3"
    with lives() as server:
        async with server.now.backend() as backend:
            both = (confined(root, script, tty=tty), words("bash", "-c", script, tty=tty))
            ids = [(await backend.start(params)).process_id for params in both]
        for number in range(4):
            await asyncio.to_thread(server.replace if number == 2 else server.die_and_begin)
        async with server.now.backend() as backend:
            found = [await all_events(await backend.attach(one)) for one in ids]
    end = b"\r\n" if tty else b"\n"
    wanted = b"".join(b"line %d%b" % (number, end) for number in range(1, 4001))
    for events in found:
        assert_seqs_whole(events)
        assert_offsets_whole(events)
        digest = hashlib.sha256(output_of(events)).hexdigest()
        assert digest == hashlib.sha256(wanted).hexdigest()
        assert (end_of(events).exit_code, end_of(events).cause) == (3, "exited")
