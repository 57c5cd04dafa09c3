"""Own the companion that carries a sandbox's network outside: its start at the gate, its watch and its end.

What it is, and why it is held as it is, `sandbox.slirp` tells. Knows nothing of the command in the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from execzmq.backends.confined import pid_of
from execzmq.errors import SandboxUnavailable
from execzmq.keeper.client import KeeperClient, SpawnedProcess
from execzmq.keeper.handover import Orphan
from execzmq.keeper.launch import Launch
from execzmq.keeper.namespaces import open_network, open_owner
from execzmq.sandbox import slirp
from execzmq.sandbox.slirp import HELD
from execzmq.types.finding import Finding

NOTICE = "network_lost"
_ENV = {b"PATH": b"/usr/sbin:/usr/bin:/sbin:/bin", b"LC_ALL": b"C"}
_SECONDS = 10.0
"""Time in which the sandbox's loopback, and then its network, must be there; they need some 10 ms."""
_LOOK_AGAIN = 0.001
_MOST_WORDS = 2000


class Companion:
    """The process that is the network of one sandbox; its descriptors are this object's.

    Args:
        key: of the command.
        spawned: the process.
        holds: end of a pipe: the process ends when nobody has that end any more.
    """

    def __init__(self, key: str, spawned: SpawnedProcess, holds: int) -> None:
        self._key = key
        self._id = spawned.process_id
        self._pid, self._started_at = spawned.pid, spawned.started_at
        names = {"pidfd": spawned.pidfd, "stdout": spawned.fds.pop("stdout", -1), HELD: holds}
        self._fds = {name: fd for name, fd in names.items() if fd >= 0}
        spawned.pidfd = -1
        spawned.close()
        self._said = b""
        self._lost: Callable[[str], None] = lambda words: None
        self._loop = asyncio.get_running_loop()
        if "stdout" in self._fds:
            os.set_blocking(self._fds["stdout"], False)
            self._loop.add_reader(self._fds["stdout"], self._hear)

    def watch(self, lost: Callable[[str], None]) -> None:
        """Call once, with words for people, if it ends before it is ended or left."""
        self._lost = lost
        self._loop.add_reader(self._fds["pidfd"], self._end)

    @property
    def held(self) -> int:
        """Return what lets it live, for a keeper that is to hold it with the command; it stays its own."""
        return self._fds.get(HELD, -1)

    @property
    def words(self) -> str:
        """Return the last that it has said."""
        self._hear()
        return " ".join(self._said.decode(errors="backslashreplace").split())

    def _orphan(self) -> Orphan:
        """Describe it for a keeper that has not started it."""
        fds: dict[str, int] = {name: fd for name, fd in self._fds.items() if name != HELD}
        return Orphan(self._id, self._pid, fds, self._started_at, None, None, 0, frozenset({"discard"}))

    def end(self, keeper: KeeperClient) -> None:
        """End it; idempotent."""
        if self._fds:
            self.leave()
            keeper.close_name(self._key, HELD)
            keeper.abandon(self._id)

    def hand_over(self, keeper: KeeperClient) -> None:
        """Give it to a keeper that has not started it."""
        if "pidfd" in self._fds:
            keeper.adopt(self._orphan())

    def leave(self) -> None:
        """Have nothing more to do with it: it goes on while a keeper holds it; idempotent."""
        while self._fds:
            fd = self._fds.popitem()[1]
            self._loop.remove_reader(fd)
            os.close(fd)

    def _hear(self) -> None:
        """Take what it says: it must never wait for a reader."""
        fd = self._fds.get("stdout", -1)
        with contextlib.suppress(OSError):
            if fd >= 0 and (data := os.read(fd, 65_536)):
                self._said = (self._said + data)[-_MOST_WORDS:]
                return
            self._loop.remove_reader(fd)

    def _end(self) -> None:
        self._loop.remove_reader(self._fds["pidfd"])
        self._lost(f"the sandbox has no network any more: slirp4netns has ended: {self.words}".rstrip(": "))


async def connect(keeper: KeeperClient, key: str, first: int) -> Companion:
    """Give the internet to a sandbox whose command waits at its gate; returns when the network is there.

    Cancelling leaves no companion once the keeper has answered.

    Args:
        key: of the command.
        first: pidfd of the sandbox's first process.

    Raises:
        SandboxUnavailable: there is no network; nothing of it is left. SpawnError, KeeperLost: the same.
        OSError: the sandbox has ended.
    """
    program = slirp.find()
    await _loopback(pid_of(first))
    ready, told = os.pipe()
    with contextlib.ExitStack() as undoing:
        undoing.callback(os.close, ready)
        companion = await _start(keeper, key, first, program, told)
        ending = undoing.enter_context(contextlib.ExitStack())
        ending.callback(companion.end, keeper)
        if not await _is_told(ready):
            words = f"slirp4netns gives the sandbox no network: {companion.words}"
            raise SandboxUnavailable(f"{words}; use network 'proxy'", reason="network", words=companion.words)
        ending.pop_all()
    return companion


async def _start(keeper: KeeperClient, key: str, first: int, program: bytes, told: int) -> Companion:
    """Have the keeper start it; `told` is closed."""
    with contextlib.ExitStack() as closing:
        closing.callback(os.close, told)
        network = open_network(first)
        closing.callback(os.close, network)
        owner = open_owner(network)
        closing.callback(os.close, owner)
        ends, holds = os.pipe()
        closing.callback(os.close, ends)
        failing = closing.enter_context(contextlib.ExitStack())
        failing.callback(os.close, holds)
        keeper.hold(key, HELD, holds)
        launch = Launch(
            slirp.companion_of(key),
            slirp.argv(program, is_root=os.geteuid() == 0),
            env=_ENV,
            merge_stderr=True,
            passed=slirp.PASSED,
        )
        starting = keeper.spawn(launch, {"netns": network, "userns": owner, "exit": ends, "ready": told})
        failing.pop_all()
    try:
        spawned = await starting
    except BaseException:
        os.close(holds)
        raise
    keeper.mark(launch.process_id, "discard")  # what it says while no server lives
    return Companion(key, spawned, holds)


async def _loopback(pid: int) -> None:
    """Wait until bubblewrap has made the sandbox's loopback: it fails where somebody else has."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _SECONDS
    while not slirp.has_loopback(_addresses(pid)):
        if loop.time() > end:
            raise SandboxUnavailable("the sandbox's loopback was not there in time", reason="network")
        await asyncio.sleep(_LOOK_AGAIN)


def _addresses(pid: int) -> str:
    with open(f"/proc/{pid}/net/fib_trie", encoding="ascii") as file:
        return file.read()


async def _is_told(ready: int) -> bool:
    """Wait for the word that the network is there; False if there will be none, or none in time."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(ready, readable.set)
    try:
        async with asyncio.timeout(_SECONDS):
            await readable.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(ready)
    return os.read(ready, 1) == b"1"


def finding() -> Finding:
    """Tell what the doctor says of the network `internet`; without it all others are there still."""
    name = "sandbox: internet"
    try:
        return Finding(name, True, f"by {os.fsdecode(slirp.find())}")
    except SandboxUnavailable as error:
        return Finding(name, True, f"not to be had: {error}")
