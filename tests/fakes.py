"""A backend that keeps the inner seam with plain subprocesses and lists, for tests of what sits upon it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from functools import partial
from typing import IO, Any, Literal

from execzmq.errors import CommandNotFound, NotExecutable, ProcessNotFound, ProcessNotRunning, StdinClosed
from execzmq.types.events import Closed, Event, Exited, Output, Started, Stream
from execzmq.types.params import ExecParams
from execzmq.types.results import ExitResult, ProcessInfo, ReadResponse, ServerInfo, TerminateReport

READ = 65536


class FakeProcess:
    """One command, its events in a list."""

    def __init__(self, params: ExecParams, process_id: str) -> None:
        self.params = params
        self.process_id = process_id
        self.instance = 1
        self.log: list[Event] = []
        self.result: ExitResult | None = None
        self.is_closed = False
        self.keyboard = False
        self._cause: Any = None
        self._news = asyncio.Condition()
        self._offsets = {"stdout": 0, "stderr": 0}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Start the command."""
        params = self.params
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(  # noqa: ASYNC220  # a fork is short
            [params.arg0 or params.argv[0], *params.argv[1:]],
            executable=params.argv[0] if params.arg0 else None,
            stdin=subprocess.DEVNULL if params.stdin == "null" else pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT if params.merge_stderr else pipe,
            cwd=params.cwd,
            env=params.env,
            start_new_session=True,
            bufsize=0,
        )
        await self._add(lambda seq: Started(seq, self._child.pid))
        self._spawn(self._watch())
        if self._child.stdin is not None:
            os.set_blocking(self._child.stdin.fileno(), False)
        if params.stdin == "data":
            self._spawn(self._give(params.stdin_data))
        if params.timeout is not None:
            self._spawn(self._strike(params.timeout))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _readable(self, fd: int) -> None:
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        loop.add_reader(fd, _settle, future)
        try:
            await future
        finally:
            loop.remove_reader(fd)

    async def _writable(self, fd: int) -> None:
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        loop.add_writer(fd, _settle, future)
        try:
            await future
        finally:
            loop.remove_writer(fd)

    async def _add(self, make: Any) -> None:
        async with self._news:
            self.log.append(make(len(self.log) + 1))
            self._news.notify_all()

    async def _pump(self, stream: Stream, file: IO[bytes] | None) -> None:
        if file is None:
            return
        with file:
            await self._readable(file.fileno())
            while data := os.read(file.fileno(), READ):
                offset = self._offsets[stream]
                self._offsets[stream] += len(data)
                await self._add(lambda seq, o=offset, d=data: Output(seq, stream, o, d, time.time()))
                await self._readable(file.fileno())

    async def _watch(self) -> None:
        pumps = [
            self._spawn(self._pump("stdout", self._child.stdout)),
            self._spawn(self._pump("stderr", self._child.stderr)),
        ]
        exited = asyncio.ensure_future(self._exit_code())
        code = await exited
        if self.params.drain_limit is None or self._cause:
            await asyncio.wait(pumps)
        else:
            await asyncio.wait(pumps, timeout=0.02)  # what the command itself wrote comes before its exit
        self.result = ExitResult(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            cause=self._cause or ("exited" if code >= 0 else "signaled"),
        )
        result = self.result
        await self._add(lambda seq: Exited(seq, result))
        _, holding = await asyncio.wait(pumps, timeout=self.params.drain_limit)
        if holding:
            result = replace(result, held_open_by=((0, "somebody"),))
        self.result = replace(result, output_bytes=dict(self._offsets))
        closed = self.result
        self.is_closed = True
        await self._add(lambda seq: Closed(seq, closed))

    async def _exit_code(self) -> int:
        pidfd = os.pidfd_open(self._child.pid)
        try:
            await self._readable(pidfd)
        finally:
            os.close(pidfd)
        return self._child.wait()

    async def _give(self, data: bytes) -> None:
        with contextlib.suppress(StdinClosed):
            await self.write(data, end=True)

    async def _strike(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.result is None:
            self._cause = "timed_out"
            self._kill(signal.SIGKILL)

    def _kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    async def subscribe_events(self, after_seq: int = 0) -> AsyncIterator[Event]:
        while True:
            async with self._news:
                await self._news.wait_for(partial(self._reaches, after_seq + 1))
            for event in self.log[after_seq:]:
                after_seq += 1
                yield event
                if isinstance(event, Closed):
                    return

    def _reaches(self, seq: int) -> bool:
        return len(self.log) >= seq

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        chunks = tuple(self.log[after_seq:])
        end = len(self.log)
        return ReadResponse(self.process_id, 1, chunks, end, 1, end, self.result is not None, self.is_closed)

    async def write(self, data: bytes, end: bool = False) -> int:
        file = self._child.stdin
        rest = memoryview(data)
        try:
            while rest and file is not None:
                await self._writable(file.fileno())
                rest = rest[os.write(file.fileno(), rest) :]
        except (BrokenPipeError, ValueError):
            file = None
        if file is None:
            raise StdinClosed("stdin is closed")
        if end:
            file.close()
        return len(data)

    async def signal(self, signal_: str | int) -> None:
        if self.result is not None:
            raise ProcessNotRunning("it has ended")
        number = signal_ if isinstance(signal_, int) else signal.Signals["SIG" + signal_.removeprefix("SIG")]
        self._kill(number)

    async def resize(self, rows: int, cols: int) -> None:
        self.params = replace(self.params, tty_size=replace(self.params.tty_size, rows=rows, cols=cols))

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        self._kill(signal.SIGTERM if grace else signal.SIGKILL)
        await self.wait("exited", grace or 5.0)
        self._kill(signal.SIGKILL)
        await self.wait("closed", 5.0)
        return TerminateReport()

    async def claim_keyboard(self, take_over: bool = False) -> None:
        self.keyboard = True

    async def release_keyboard(self) -> None:
        self.keyboard = False

    async def wait(self, until: Literal["exited", "closed"], timeout: float) -> ProcessInfo:  # noqa: ASYNC109  # the seam has it
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._news:
                await self._news.wait_for(
                    lambda: self.is_closed if until == "closed" else self.result is not None
                )
        return await self.info()

    async def info(self) -> ProcessInfo:
        return ProcessInfo(
            process_id=self.process_id,
            name=self.params.name,
            instance=1,
            argv=self.params.argv,
            cwd=self.params.cwd or b"/",
            state="closed" if self.is_closed else "exited" if self.result else "running",
            pid=self._child.pid,
            started_at=0.0,
            exited=self.result is not None,
            closed=self.is_closed,
            result=self.result,
            last_seq=len(self.log),
        )

    async def forget(self) -> None:
        self.log.clear()

    async def aclose(self) -> None:
        """Kill it and everything of it that is left."""
        self._kill(signal.SIGKILL)
        await self.wait("closed", 5.0)
        for task in self._tasks:
            task.cancel()
        if self._child.stdin is not None:
            self._child.stdin.close()


class FakeBackend:
    """Starts `FakeProcess`es."""

    is_local = True

    def __init__(self) -> None:
        self.processes: dict[str, FakeProcess] = {}
        self.is_closed = False

    async def start(self, params: ExecParams) -> FakeProcess:
        process = FakeProcess(params, params.process_id or f"fake-{len(self.processes)}")
        try:
            await process.begin()
        except FileNotFoundError as error:
            raise CommandNotFound(str(error), errno=error.errno) from None
        except PermissionError as error:
            raise NotExecutable(str(error), errno=error.errno) from None
        self.processes[process.process_id] = process
        return process

    async def attach(self, id_or_name: str) -> FakeProcess:
        for process in self.processes.values():
            if id_or_name in (process.process_id, process.params.name):
                return process
        raise ProcessNotFound(f"no process {id_or_name}")

    async def list_processes(self) -> list[ProcessInfo]:
        return [await process.info() for process in self.processes.values()]

    async def server_info(self) -> ServerInfo:
        return ServerInfo(os.getpid(), "e", "0", "fake", "here", "owner", 0.0)

    async def shutdown(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.is_closed = True
        for process in self.processes.values():
            await process.aclose()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
