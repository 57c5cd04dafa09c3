"""Own the async public face: `AsyncClient` and `AsyncProcess` over any backend.

Never asks which backend it is but for `is_local`, which decides the defaults of cwd and env. Cancelling any
method but `run` cancels the waiting, never the command.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from execzmq import settings
from execzmq.client import run as runs
from execzmq.client.arguments import (
    Caller,
    Command,
    StartOptions,
    start_params,
    this_process,
)
from execzmq.client.lines import LineSplitter
from execzmq.client.plan import RunOptions, run_plan
from execzmq.client.reaching import Reach, State
from execzmq.client.signatures import options_from
from execzmq.client.terms import ShareOptions, share_terms
from execzmq.errors import StdinClosed, WaitTimeout
from execzmq.types.backend import ExecBackend, ExecProcess
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

_ANSWER = 1.0
"""Seconds for the answer of a server that was asked to wait for less than a long poll."""


class AsyncProcess:
    """A process, started or found; any number of these may speak of one process.

    Losing or closing it leaves the process alone.

    Args:
        process: what a backend has started or found.
    """

    def __init__(self, process: ExecProcess) -> None:
        self._process = process

    @property
    def process_id(self) -> str:
        """The id under which any client finds the process."""
        return self._process.process_id

    @property
    def instance(self) -> int:
        """The life of that id that this object speaks of."""
        return self._process.instance

    async def events(self, after_seq: int = 0) -> AsyncGenerator[Event, None]:
        """Yield every event after `after_seq` once and in order; end after `Closed` or `Failed`.

        What the log no longer has is told by a `Gap`. Cancelling or closing it leaves nothing behind; go on
        later from the last seq that was seen.

        Raises:
            ProcessNotFound: the process was forgotten. InstanceChanged: another life has taken its id.
            ServerLost: no server has answered for the stated time.
        """
        events = self._process.subscribe_events(after_seq)
        try:
            async for event in events:
                yield event
        finally:
            await runs.close_iterator(events)

    async def output(self, after_seq: int = 0) -> AsyncGenerator[Output | Gap, None]:
        """Yield the output as it comes, and a `Gap` where bytes are lost; otherwise as `events`."""
        events = self.events(after_seq)
        try:
            async for event in events:
                if isinstance(event, Output | Gap):
                    yield event
        finally:
            await events.aclose()

    async def lines(self, after_seq: int = 0) -> AsyncGenerator[str, None]:
        """Yield the lines of both streams without their ends, as each is complete; otherwise as `events`.

        UTF-8; what is none is replaced. Where bytes are lost a line says how many.
        """
        splitter = LineSplitter()
        events = self.events(after_seq)
        try:
            async for event in events:
                for line in splitter.feed(event):
                    yield line
        finally:
            await events.aclose()

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        """Return one page of the log.

        Args:
            after_seq: 0, or the `next_seq` of the page before.
            max_bytes: most output bytes in it, though always at least one event; `None` = 4 MiB, the most.
            wait: seconds (at most 30) to wait where there is nothing yet.

        Raises:
            ProcessNotFound: the process was forgotten. InstanceChanged: another life has taken its id.
        """
        return await self._process.read(after_seq, max_bytes, wait)

    async def write(self, data: bytes) -> int:
        """Append to the process's stdin; return the bytes accepted, which is all of them.

        Waits while 16 MiB are unread. Cancelling may leave a part accepted. To write nothing asks whether
        there is a stdin.

        Raises:
            StdinClosed: there is no stdin, or its end was written. Conflict: another has the keyboard.
            ProcessNotRunning: it has ended.
        """
        view = memoryview(data).cast("B")
        for begin in range(0, max(len(view), 1), settings.WRITE_PIECE):
            await self._process.write(bytes(view[begin : begin + settings.WRITE_PIECE]))
        return len(view)

    async def close_stdin(self) -> None:
        """Write the end of stdin (to a terminal, its end-of-file character); errors as for `write`.

        No effect once the process has ended: it may do so at any moment.
        """
        try:
            await self._process.write(b"", end=True)
        except StdinClosed:
            if not (await self._process.info()).exited:
                raise

    async def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size in character cells, each 1 to 65,535.

        Raises:
            NotATerminal, ProcessNotRunning, InvalidRequest. Conflict: another has the keyboard.
        """
        await self._process.resize(rows, cols)

    async def screen(self) -> Screen:
        """Return what the terminal shows now, and the seq after which its output goes on.

        Its `data`, written to an empty terminal, shows the same. Of what has ended it is the last
        screen. Cancelling leaves nothing behind.

        Raises:
            NotATerminal. ServerError: the log cannot be read.
        """
        return await self._process.screen()

    async def signal(self, signal: str | int) -> None:
        """Send a signal (`"INT"`, `"SIGINT"` or a number) to the command's process group.

        Raises:
            ProcessNotRunning: it has ended. InvalidRequest: no such signal.
        """
        await self._process.signal(int(signal) if isinstance(signal, signals.Signals) else signal)

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        """End the whole tree: TERM, up to `grace` seconds, KILL. Cancelling does not stop the ending."""
        return await self._process.terminate(grace)

    async def kill(self) -> TerminateReport:
        """End the whole tree by KILL at once."""
        return await self._process.terminate(0.0)

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # told by an error of its own
        *,
        closed: bool = False,
    ) -> ExitResult:
        """Wait until the command has exited, with `closed` until its streams have ended too.

        Args:
            timeout: seconds; `None` = no limit.

        Raises:
            WaitTimeout: not within `timeout`; the process goes on. ProcessNotFound: it was forgotten.
            ServerLost: no server has answered for the stated time.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        until: Literal["exited", "closed"] = "closed" if closed else "exited"
        while True:
            left = settings.LONG_POLL if deadline is None else max(deadline - loop.time(), 0.0)
            result = await self._ended(until, min(left, settings.LONG_POLL))
            if result is not None:
                return result
            if deadline is not None and loop.time() >= deadline:
                raise WaitTimeout(f"process {self.process_id} has not {until} within {timeout:g} s")

    async def _ended(self, until: Literal["exited", "closed"], seconds: float) -> ExitResult | None:
        """Wait for the end; a server that does not answer is waited for little longer than asked."""
        if seconds >= settings.LONG_POLL:
            return await self._process.ended(until, seconds)  # it has limits of its own
        scope = asyncio.timeout(seconds + _ANSWER)
        try:
            async with scope:
                return await self._process.ended(until, seconds)
        except TimeoutError:
            if not scope.expired():
                raise
            return None

    async def info(self, *, usage: bool = False) -> ProcessInfo:
        """Describe the process.

        Args:
            usage: measure what it and all that it has started use, too: a look at all processes there.

        Raises:
            ProcessNotFound: it was forgotten.
        """
        return await self._process.info(usage)

    async def forget(self) -> None:
        """Remove the ended process and its log.

        Raises:
            InvalidState: it has not ended.
        """
        await self._process.forget()

    async def claim_keyboard(self, take_over: bool = False) -> None:
        """Be the only one that may write to and resize the terminal, until released or this client is gone.

        Raises:
            Conflict: another client holds it and `take_over` is false. NotATerminal.
        """
        await self._process.claim_keyboard(take_over)

    async def release_keyboard(self) -> None:
        """Give the keyboard back; no error where this client does not hold it."""
        await self._process.release_keyboard()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.process_id}>"


class AsyncClient:
    """Starts and finds processes in one place; an async context manager that closes itself.

    Args:
        backend: where the commands run, or how that is reached; owned from now on.
    """

    def __init__(self, backend: ExecBackend | Reach) -> None:
        self._reach = backend if isinstance(backend, Reach) else Reach.of(backend)
        self._runs: set[runs.Ender] = set()

    @property
    def backend(self) -> ExecBackend:
        """Where the commands run.

        Raises:
            ClientClosed: after `aclose`. InvalidState: before the first use.
        """
        return self._reach.backend

    @property
    def state(self) -> State:
        """How it stands with the connection, as far as this client has noticed; asks nobody.

        `idle` before the first use, `connecting`, `connected`, `lost` while the server does not answer,
        `failed` where the first use could not connect, so that the next one tries again, `closed`.
        """
        return self._reach.state

    def watch_state(self, callback: Callable[[State], object]) -> Callable[[], None]:
        """Have `callback` called with each new `state`, on the client's loop; return what ends that.

        It must not wait. That a Dask cluster is lost is not noticed by itself: look at `state`.
        """
        return self._reach.watch(callback)

    async def connect(self) -> None:
        """Connect now where that has not been done; any other method does so, too.

        Raises:
            ConnectionFailed, AuthenticationFailed, VersionMismatch, RequestTimeout: it cannot be reached.
        """
        await self._reach.reach()

    def caller(self) -> Caller | None:
        """Return the folder and variables that commands get by default, `None` where they mean nothing."""
        return this_process() if self.backend.is_local else None

    @options_from(RunOptions)
    async def run(self, args: Command, **options: Unpack[RunOptions]) -> runs.CompletedProcess:
        """Run a command to its end, as `subprocess.run` does, and return what became of it.

        A str is a line for the server's `/bin/sh`; a list or a path is argv. Output is captured unless
        `stdout` or `stderr` say otherwise (`INHERIT` writes it to the caller's own as it comes), stdin is
        empty unless `stdin` or `input` is given. It returns when the command has exited and its streams have
        ended, or `drain` (1.0) seconds after the exit; then `result.held_open_by` names who still holds
        them. The keywords are those of `RunOptions`.

        Cancelling it, and any exception in it, ends the whole process tree by KILL.

        Raises:
            subprocess.CalledProcessError: with `check`, where the command failed.
            subprocess.TimeoutExpired: after `timeout` seconds; the tree is ended, the output so far is in it.
            SpawnFailed: the command could not be started, by the name of a subclass.
            StatusUnknown: it is over and nobody knows how. OSError: `stdout`, `stderr` or `stdin` failed.
            TypeError, ValueError: the keywords; nothing was started.
        """
        backend = await self._reach.reach()
        return await runs.run(backend, run_plan(args, options, self.caller()), self._runs)

    @options_from(StartOptions)
    async def start(self, args: Command, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command and return its process, which outlives this client.

        A str is a line for the server's `/bin/sh`; a list or a path is argv. The keywords are those of
        `StartOptions`. Cancelling it leaves open whether the command was started.

        Raises:
            SpawnFailed: it could not be started, by the name of a subclass.
            Conflict: `process_id` or `name` is taken. InvalidRequest. SandboxUnavailable.
            PermissionRefused: more than the server's profile allows.
        """
        backend = await self._reach.reach()
        return AsyncProcess(await backend.start(start_params(args, options, self.caller())))

    @options_from(StartOptions)
    async def explain(self, args: Command, **options: Unpack[StartOptions]) -> dict[str, Any]:
        """Check a start and tell what it would become; nothing is started.

        The keywords are those of `start`. The keys: `argv` (what would be executed), `arguments` (what of
        it is passed by a descriptor; `None` without a sandbox), `cwd`, `env` (names alone), `sandbox` (what
        would be applied; `None` = nothing). Words, names and paths are bytes.

        Raises:
            Conflict, InvalidRequest, PermissionRefused, SandboxUnavailable: as `start` would.
        """
        backend = await self._reach.reach()
        return await backend.explain(start_params(args, options, self.caller(), "explain"))

    async def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles that `sandbox` can name, the built-in ones first.

        Raises:
            InvalidRequest: the server's file of profiles is wrong.
        """
        return await (await self._reach.reach()).profiles()

    async def attach(self, id_or_name: str) -> AsyncProcess:
        """Find a process: by id first, then by living name, then the newest finished of that name.

        Raises:
            ProcessNotFound: there is none.
        """
        return AsyncProcess(await (await self._reach.reach()).attach(id_or_name))

    async def processes(self, *, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process that is not forgotten, oldest first; with `usage`, measure them, too."""
        return await (await self._reach.reach()).list_processes(usage)

    async def info(self) -> ServerInfo:
        """Describe the server, or what stands for one."""
        return await (await self._reach.reach()).server_info()

    @options_from(ShareOptions)
    async def share(self, output: str | os.PathLike[str], **options: Unpack[ShareOptions]) -> ShareInfo:
        """Let somebody in over the network: write a connection file to hand out, and return what it allows.

        The keywords are those of `ShareOptions`. With the first share of a server it begins to listen on tcp.
        Cancelled, it leaves a share at most whose file nobody has.

        Raises:
            TypeError, InvalidRequest: the keywords. ProcessNotFound: one of the processes is not there.
            Conflict: there is a file of that name. ConnectionFailed: it cannot be written, or the server
                cannot listen.
            InvalidState: this client has no server, or that listens without CURVE. PermissionRefused: only
                an owner shares.
        """
        backend = await self._reach.reach()
        return await backend.share(share_terms(options, self.caller()), Path(output))

    async def shares(self) -> list[ShareInfo]:
        """Describe the shares in force, the oldest first."""
        return await (await self._reach.reach()).shares()

    async def revoke(self, share: str | os.PathLike[str]) -> None:
        """Take a share back: its holder is refused from now on, and cut off within a second.

        Args:
            share: its id, or its connection file: a path, or the name of a file that is here.

        Raises:
            ShareNotFound: there is none of that id. ConnectionFailed: the file cannot be used.
        """
        from execzmq.client.sharing import id_of

        await (await self._reach.reach()).revoke(id_of(share))

    async def shutdown(self) -> None:
        """End every process (TERM, grace, KILL) and then the server itself."""
        await (await self._reach.reach()).shutdown()

    async def aclose(self) -> None:
        """End what `run` still runs, then release all; idempotent. A local client ends its processes."""
        if self._reach.refuse():
            await asyncio.gather(*(end() for end in tuple(self._runs)))
            await runs.cleaned_up()
            await self._reach.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
