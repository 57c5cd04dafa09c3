"""Own what chaos is made in: a server that may die, its commands, who feeds and watches them, the check."""

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from execzmq import connection
from execzmq.client.aio import AsyncClient, AsyncProcess
from execzmq.errors import LimitExceeded
from execzmq.types.params import Limits
from tests.chaos import commands, relay, witness
from tests.chaos.commands import Record
from tests.chaos.disk import CAN_MOUNT, Disk, mounted
from tests.servers import MOST_MEMORY, ServerProcess
from tests.support import deadline, ms, pass_time, program_env, wait_until

KINDS = ("writer", "terminal", "reader")
PYTHON = os.path.realpath(sys.executable)
"""Out of its environment, which a sandbox may not show."""
CAN_CONFINE = shutil.which("bwrap") is not None
"""Whether a part of the commands is run in sandboxes."""
LIMITS = Limits(memory=500 << 20, processes=50)
_PIECE = 100_000
"""Most bytes of one write to a reader."""


@dataclasses.dataclass(frozen=True)
class Command:
    """One command under chaos."""

    process_id: str
    kind: str
    seed: int
    result: Path
    is_confined: bool = False

    @property
    def exit_code(self) -> int:
        """Return the status with which it ends."""
        return self.seed % 100

    def told(self) -> dict[str, Any]:
        """Return what it says itself that has gone through its streams."""
        return {name: tuple(value) for name, value in json.loads(self.result.read_text()).items()}


class World:
    """What one round of chaos is made in.

    Args:
        seed: decides all that is random.
        folder: for results, the relay's sockets and connection file.
        seconds: for which the commands are busy.

    Attributes:
        server: the one that lives, or has just been killed.
        client: a client through all of it.
        witnesses: programs that watch.
        disk: what the state is on, `None` where that cannot be made full.
    """

    def __init__(
        self, seed: int, folder: Path, seconds: float, server: ServerProcess, disk: Disk | None
    ) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.server = server
        self.disk = disk
        self.client: AsyncClient
        self.commands: list[Command] = []
        self._root = folder / "ws"
        self._root.mkdir()
        shutil.copy(commands.__file__, self._root)
        self.witnesses: list[asyncio.subprocess.Process] = []
        self._seconds = seconds
        self._feeders: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._relay: asyncio.subprocess.Process | None = None

    # Commands

    async def begin(self, count: int) -> None:
        """Start that many commands, of each kind."""
        for number in range(count):
            kind = KINDS[number % len(KINDS)]
            is_confined = CAN_CONFINE and number // len(KINDS) % 3 == 1
            command = Command(
                f"c{number}", kind, self.chance.randrange(2**32), self._root / f"r{number}", is_confined
            )
            process = await self.client.start(
                [
                    PYTHON,
                    str(self._root / "commands.py"),
                    kind,
                    str(command.seed),
                    str(self._seconds),
                    str(command.result),
                ],
                process_id=command.process_id,
                stdin=kind == "reader",
                tty=kind == "terminal",
                cwd=self._root,
                sandbox="workspace-write" if is_confined else None,
                workspace_roots=[self._root] if is_confined else (),
                limits=LIMITS if is_confined else None,
            )
            self.commands.append(command)
            if kind == "reader":
                seed = self.chance.randrange(2**32)
                self._feeders[command.process_id] = asyncio.create_task(self._feed(process, seed))

    async def _feed(self, process: AsyncProcess, seed: int) -> dict[str, Any]:
        """Write random pieces to stdin for the time of the round; return what was written."""
        chance, record, loop = random.Random(seed), Record("stdin"), asyncio.get_running_loop()
        end = loop.time() + self._seconds
        while loop.time() < end:
            data = chance.randbytes(chance.randrange(_PIECE))
            while not await _is_taken(process, data):
                await pass_time(ms(50))
            record.add("stdin", data)
            await pass_time(chance.uniform(0, 0.2))
        await process.close_stdin()
        return record.told()

    # Watchers

    async def watch(self, connection_file: Path | None = None) -> None:
        """Let one more program follow all commands, through the server's own file or another."""
        self.witnesses.append(
            await _program(
                witness.__file__,
                str(connection_file or self.server.state / "connection.json"),
                *(command.process_id for command in self.commands),
            )
        )

    async def watch_far_away(self) -> None:
        """Let one more program follow all, through a way that can be cut."""
        info = self.server.info
        paths = [info.socket_path(channel) for channel in ("shell", "control", "stdin", "iopub", "hb")]
        folder = self.folder / "relay"
        folder.mkdir(mode=0o700)
        self._relay = await _program(relay.__file__, str(folder), *filter(None, paths))
        far = dataclasses.replace(info, ip=str(folder / connection.SOCKET_PREFIX))
        connection.write_connection_file(folder / "far.json", far)
        await self.watch(folder / "far.json")

    async def tell_relay(self, word: str) -> None:
        """Cut the way to the far witness, or heal it."""
        assert self._relay is not None
        await _ask(self._relay, word)

    # The check

    async def check(self) -> None:
        """Wait for all ends, and find that everybody has seen what the commands say themselves."""
        fed = {name: await task for name, task in self._feeders.items()}
        sights = [json.loads(await _last_line(one)) for one in self.witnesses]
        for command in self.commands:
            told = command.told()
            if command.kind == "reader":
                assert told == fed[command.process_id], f"{command}: read other than what was written"
            for number, sight in enumerate(sights):
                _check(command, told, sight[command.process_id], f"witness {number} of {command}")
        assert self.server.peak_memory() < MOST_MEMORY
        await asyncio.to_thread(wait_until, self._is_tidy, 20.0)
        for command in self.commands:
            await (await self.client.attach(command.process_id)).forget()

    def _is_tidy(self) -> bool:
        """Tell whether sandboxes have left nothing, which goes soon after the last of them."""
        return sorted(path.name[:1] for path in self._root.iterdir()) == ["c", *"r" * len(self.commands)]

    async def close(self) -> None:
        """End every program that this world has started."""
        for task in self._feeders.values():
            task.cancel()
        await asyncio.gather(*self._feeders.values(), return_exceptions=True)
        for program in (*self.witnesses, self._relay):
            if program is not None:
                await _end(program)


async def _is_taken(process: AsyncProcess, data: bytes) -> bool:
    """Write to stdin; on a full disk nothing is taken."""
    try:
        await process.write(data)
    except LimitExceeded:
        return False
    return True


def _check(command: Command, told: dict[str, Any], sight: dict[str, Any], who: str) -> None:
    kinds = [kind for kind in sight["kinds"] if kind != "notice"]
    assert not sight["faults"], (who, sight["faults"])
    assert kinds == ["started", "exited", "closed"], (who, kinds)
    assert (sight["exit_code"], sight["cause"]) == (command.exit_code, "exited"), (who, sight)
    assert not sight["lost"], (who, sight["lost"])
    for name, value in told.items():
        if name != "stdin":
            assert tuple(sight["streams"][name]) == tuple(value), f"{who}: {name} differs"


async def _program(path: str, *arguments: str) -> asyncio.subprocess.Process:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        path,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=program_env(),
        limit=1 << 20,
    )
    assert program.stdout is not None
    assert await program.stdout.readline() == b"ready\n"
    return program


async def _ask(program: asyncio.subprocess.Process, word: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(word.encode() + b"\n")
    assert await program.stdout.readline() == b"ok\n"


async def _last_line(program: asyncio.subprocess.Process) -> bytes:
    assert program.stdout is not None
    async with deadline(60):
        return await program.stdout.readline()


async def _end(program: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        program.kill()
    await program.communicate()


@contextlib.asynccontextmanager
async def world(seed: int, folder: Path, seconds: float) -> AsyncIterator[World]:
    """Make a world with a server in it; in the end all is gone."""
    os.mkdir(folder, mode=0o700)
    with mounted(Path(os.environ["XDG_STATE_HOME"])) if CAN_MOUNT else nullcontext() as disk:
        made = World(seed, folder, seconds, await asyncio.to_thread(ServerProcess, "chaos", ()), disk)
        try:
            async with made.server.aclient() as made.client:
                yield made
        finally:
            await made.close()
            await asyncio.to_thread(made.server.close)
