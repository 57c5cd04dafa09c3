"""Own the blocking public face: `Client` and `Process`, one line each over the async ones.

Usable from several threads and inside a running loop. KeyboardInterrupt in a call cancels what the call does
on the loop, waits for its cleanup and is raised; what that leaves is what cancelling the async twin leaves.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from execzmq.client.aio import AsyncClient, AsyncProcess
from execzmq.client.arguments import Command, StartOptions
from execzmq.client.batches import iterate
from execzmq.client.plan import RunOptions
from execzmq.client.portal import LoopThread
from execzmq.client.reaching import State
from execzmq.client.run import CompletedProcess
from execzmq.client.signatures import options_from
from execzmq.client.terms import ShareOptions
from execzmq.errors import ClientClosed
from execzmq.types.events import Event, Gap, Output
from execzmq.types.results import (
    ExitResult,
    ProcessInfo,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo

T = TypeVar("T")


class Process:
    """A process, started or found; see `AsyncProcess`, whose methods these are, for their errors."""

    def __init__(self, process: AsyncProcess, client: Client) -> None:
        self._process = process
        self._client = client  # a client is closed when nobody refers to it any more
        self._call = client.portal.call

    @property
    def aio(self) -> AsyncProcess:
        """The async process, for coroutines that `portal` runs."""
        return self._process

    @property
    def portal(self) -> LoopThread:
        """The thread of the loop that the process's client lives on."""
        return self._client.portal

    @property
    def process_id(self) -> str:
        """The id under which any client finds the process."""
        return self._process.process_id

    @property
    def instance(self) -> int:
        """The life of that id that this object speaks of."""
        return self._process.instance

    def events(self, after_seq: int = 0) -> Generator[Event, None, None]:
        """Yield every event after `after_seq` once and in order; end after `Closed` or `Failed`."""
        return self._iterate(self._process.events(after_seq))

    def output(self, after_seq: int = 0) -> Generator[Output | Gap, None, None]:
        """Yield the output as it comes, and a `Gap` where bytes are lost."""
        return self._iterate(self._process.output(after_seq))

    def lines(self, after_seq: int = 0) -> Generator[str, None, None]:
        """Yield the lines of both streams without their ends; UTF-8, what is none is replaced."""
        return self._iterate(self._process.lines(after_seq))

    def _iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield what comes; whoever has the generator has this process, and so the client, which lives on."""
        yield from iterate(self._client.portal, source)

    def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        """Return one page of the log, of at most `max_bytes` (`None` = 4 MiB); wait up to `wait` seconds."""
        return self._call(self._process.read(after_seq, max_bytes, wait))

    def write(self, data: bytes) -> int:
        """Append to the process's stdin; return the bytes accepted, which is all of them."""
        return self._call(self._process.write(data))

    def close_stdin(self) -> None:
        """Write the end of stdin (to a terminal, its end-of-file character)."""
        self._call(self._process.close_stdin())

    def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size in character cells."""
        self._call(self._process.resize(rows, cols))

    def screen(self) -> Screen:
        """Return what the terminal shows now, and the seq after which its output goes on."""
        return self._call(self._process.screen())

    def signal(self, signal: str | int) -> None:
        """Send a signal (`"INT"`, `"SIGINT"` or a number) to the command's process group."""
        self._call(self._process.signal(signal))

    def terminate(self, grace: float = 5.0) -> TerminateReport:
        """End the whole tree: TERM, up to `grace` seconds, KILL; return what became of it."""
        return self._call(self._process.terminate(grace))

    def kill(self) -> TerminateReport:
        """End the whole tree by KILL at once."""
        return self._call(self._process.kill())

    def wait(self, timeout: float | None = None, *, closed: bool = False) -> ExitResult:
        """Wait until the command has exited, with `closed` until its streams have ended too.

        Raises:
            WaitTimeout: not within `timeout` seconds; the process goes on.
        """
        return self._call(self._process.wait(timeout, closed=closed))

    def info(self, *, usage: bool = False) -> ProcessInfo:
        """Describe the process; with `usage`, measure what it and all that it has started use, too."""
        return self._call(self._process.info(usage=usage))

    def forget(self) -> None:
        """Remove the ended process and its log."""
        self._call(self._process.forget())

    def claim_keyboard(self, take_over: bool = False) -> None:
        """Be the only one that may write to and resize the terminal."""
        self._call(self._process.claim_keyboard(take_over))

    def release_keyboard(self) -> None:
        """Give the keyboard back; no error where this client does not hold it."""
        self._call(self._process.release_keyboard())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.process_id}>"


class Client:
    """Starts and finds processes in one place; see `AsyncClient`, whose methods these are, for their errors.

    A context manager that closes itself; also closed when nobody refers to it or to one of its processes any
    more, and at the interpreter's exit. In a forked child every call raises `ClientClosed`.

    Args:
        client: does the work; owned from now on.
        portal: the thread of the loop that `client` lives on; owned from now on.
    """

    def __init__(self, client: AsyncClient, portal: LoopThread) -> None:
        self._client = client
        self._portal = portal
        self._call = portal.call
        self._close = weakref.finalize(self, _close, client, portal)

    @classmethod
    def open(cls, connect: Callable[[], Coroutine[Any, Any, AsyncClient]]) -> Self:
        """Make a client from a coroutine function that connects; errors are those of `connect`."""
        portal = LoopThread("execzmq-client")
        try:
            return cls(portal.call(connect()), portal)
        except BaseException:
            portal.close()
            raise

    @property
    def aio(self) -> AsyncClient:
        """The async client, for coroutines that `portal` runs."""
        return self._client

    @property
    def portal(self) -> LoopThread:
        """The thread of the loop that the client lives on."""
        return self._portal

    @property
    def state(self) -> State:
        """How it stands with the connection, as far as this client has noticed; asks nobody."""
        return self._client.state if self.is_usable else "closed"

    def watch_state(self, callback: Callable[[State], object]) -> Callable[[], None]:
        """Have `callback` called with each new `state`, on the client's own thread; return what ends that.

        It must not wait, and call nothing of the client but `state`.
        """
        return self._client.watch_state(callback)

    def connect(self) -> None:
        """Connect now where that has not been done; any other method does so, too."""
        self._call(self._client.connect())

    @options_from(RunOptions)
    def run(self, args: Command, **options: Unpack[RunOptions]) -> CompletedProcess:
        """Run a command to its end, as `subprocess.run` does, and return what became of it.

        A str is a line for the server's `/bin/sh`; a list or a path is argv. Output is captured unless
        `stdout` or `stderr` say otherwise (`INHERIT` writes it to the caller's own as it comes), stdin is
        empty unless `stdin` or `input` is given. It returns when the command has exited and its streams have
        ended, or `drain` (1.0) seconds after the exit; then `result.held_open_by` names who still holds
        them. The keywords are those of `RunOptions`.

        KeyboardInterrupt, and any other exception in it, ends the whole process tree by KILL.

        Raises:
            subprocess.CalledProcessError: with `check`, where the command failed.
            subprocess.TimeoutExpired: after `timeout` seconds; the tree is ended, the output so far is in it.
            SpawnFailed: the command could not be started, by the name of a subclass.
            StatusUnknown: it is over and nobody knows how. OSError: `stdout`, `stderr` or `stdin` failed.
            TypeError, ValueError: the keywords; nothing was started.
        """
        return self._call(self._client.run(args, **options))

    @options_from(StartOptions)
    def start(self, args: Command, **options: Unpack[StartOptions]) -> Process:
        """Start a command and return its process, which outlives this client.

        A str is a line for the server's `/bin/sh`; a list or a path is argv. The keywords are those of
        `StartOptions`.

        Raises:
            SpawnFailed: it could not be started, by the name of a subclass.
            Conflict: `process_id` or `name` is taken. InvalidRequest. SandboxUnavailable.
            PermissionRefused: more than the server's profile allows.
        """
        return Process(self._call(self._client.start(args, **options)), self)

    @options_from(StartOptions)
    def explain(self, args: Command, **options: Unpack[StartOptions]) -> dict[str, Any]:
        """Check a start and tell what it would become; nothing is started.

        The keywords are those of `start`. The keys: `argv` (what would be executed), `arguments` (what of
        it is passed by a descriptor; `None` without a sandbox), `cwd`, `env` (names alone), `sandbox` (what
        would be applied; `None` = nothing). Words, names and paths are bytes.

        Raises:
            Conflict, InvalidRequest, PermissionRefused, SandboxUnavailable: as `start` would.
        """
        return self._call(self._client.explain(args, **options))

    def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles that `sandbox` can name, the built-in ones first.

        Raises:
            InvalidRequest: the server's file of profiles is wrong.
        """
        return self._call(self._client.profiles())

    def attach(self, id_or_name: str) -> Process:
        """Find a process: by id first, then by living name, then the newest finished of that name.

        Raises:
            ProcessNotFound: there is none.
        """
        return Process(self._call(self._client.attach(id_or_name)), self)

    def processes(self, *, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process that is not forgotten, oldest first; with `usage`, measure them, too."""
        return self._call(self._client.processes(usage=usage))

    def info(self) -> ServerInfo:
        """Describe the server, or what stands for one."""
        return self._call(self._client.info())

    @options_from(ShareOptions)
    def share(self, output: str | os.PathLike[str], **options: Unpack[ShareOptions]) -> ShareInfo:
        """Let somebody in over the network: write a connection file to hand out, and return what it allows.

        The keywords are those of `ShareOptions`. With the first share of a server it begins to listen on tcp.
        """
        return self._call(self._client.share(output, **options))

    def shares(self) -> list[ShareInfo]:
        """Describe the shares in force, the oldest first."""
        return self._call(self._client.shares())

    def revoke(self, share: str | os.PathLike[str]) -> None:
        """Take a share back, named by its id or its file; its holder is cut off within a second."""
        self._call(self._client.revoke(share))

    def shutdown(self) -> None:
        """End every process (TERM, grace, KILL) and then the server itself."""
        self._call(self._client.shutdown())

    @property
    def is_usable(self) -> bool:
        """Whether the client is open, and not that of the parent of a fork."""
        return self._close.alive and self._portal.is_usable

    def close(self) -> None:
        """Release all that the client holds; idempotent. A local client ends its processes."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(client: AsyncClient, portal: LoopThread) -> None:
    if portal.is_own_thread:  # collected there: nothing may wait
        portal.post(lambda: portal.keep(asyncio.create_task(_close_from_loop(client, portal))))
        return
    try:
        portal.call(client.aclose())
    except ClientClosed:
        pass  # a forked child: nothing of it is its own
    finally:
        portal.close()


async def _close_from_loop(client: AsyncClient, portal: LoopThread) -> None:
    try:
        await client.aclose()
    finally:
        portal.close()
