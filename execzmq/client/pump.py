"""Own a `Popen`'s process on the loop: copies its streams to their sinks, its source to stdin, notes its end.

Takes events only as the sinks do, so a reader that sleeps loses nothing: the process then waits, as with a
pipe. Never ends the process by itself.
"""

from __future__ import annotations

import asyncio
import contextlib

from execzmq import settings
from execzmq.client.pipes import PipeSink
from execzmq.client.run import close_iterator, feed
from execzmq.client.sinks import Null, Sink
from execzmq.client.sources import Source
from execzmq.errors import ExecZMQError, StatusUnknown, from_wire
from execzmq.types.backend import ExecProcess
from execzmq.types.events import Closed, Event, Exited, Failed, Output, Started, Stream
from execzmq.types.results import ExitResult


class Pump:
    """Copies until the streams have ended; its sinks and its source are its own.

    Attributes are read by other threads: `result` (`None` until the exit is known) and `is_blocked`.
    """

    def __init__(self, process: ExecProcess, sinks: dict[Stream, Sink], source: Source | None) -> None:
        self.process = process
        self.result: ExitResult | None = None
        self.file_error: OSError | None = None
        self.is_blocked = False
        self._failure: BaseException | None = None  # why the events ended early
        self._pid: int | None = None
        for sink in sinks.values():
            if isinstance(sink, PipeSink):
                sink.on_blocked = self._note_blocked
        self._sinks = sinks
        self._source = source
        self._started = asyncio.Event()
        self._settled = asyncio.Event()  # set while there is a reason to look: an end, an error, a full pipe
        self.tasks = [asyncio.create_task(self._copy())]
        if source is not None:
            self.tasks.append(asyncio.create_task(self._feed(source)))

    async def pid(self) -> int:
        """Return the command's process number on the machine where it runs."""
        await self._started.wait()
        if self._pid is None:
            self._pid = (await self.process.info()).pid
        if self._pid is None:
            raise StatusUnknown("the command was never started")
        return self._pid

    async def poll(self) -> ExitResult | None:
        """Return how the command ended, `None` while it runs. Asks, because events wait for the reader.

        Raises:
            ServerLost and others: the events ended early by that.
        """
        if self.result is None and self._failure is not None:
            raise self._failure
        if self.result is None and self.is_blocked:
            self._learn((await self.process.info()).ending("exited"))
        return self.result

    async def wait(self) -> ExitResult:
        """Wait until the command has ended and what it wrote to files is there; errors as for `poll`."""
        while True:
            await self._settled.wait()
            if self.result is not None:
                return self.result
            if self._failure is not None:
                raise self._failure
            if self.is_blocked:
                self._learn(await self.process.ended("exited", settings.LONG_POLL))

    def take_file_error(self) -> OSError | None:
        """Return what went wrong with a file, once."""
        error, self.file_error = self.file_error, None
        return error

    def _note_blocked(self, is_blocked: bool) -> None:
        self.is_blocked = is_blocked
        self._settle()

    def _settle(self) -> None:
        if self.is_blocked or self.result is not None or self._failure is not None:
            self._settled.set()
        else:
            self._settled.clear()

    def _learn(self, result: ExitResult | None) -> None:
        if result is not None:
            self.result = result
            self._settle()

    async def _copy(self) -> None:
        events = self.process.subscribe_events()
        try:
            async for event in events:
                await self._take(event)
        except ExecZMQError as error:
            self._failure = error
        finally:
            await close_iterator(events)
            self._release()

    async def _take(self, event: Event) -> None:
        if isinstance(event, Output):
            await self._deliver(event.stream, event.data)
        elif isinstance(event, Started):
            self._pid = event.pid
            self._started.set()
        elif isinstance(event, Failed):
            self._failure = from_wire(event.error)
        elif isinstance(event, Exited | Closed):
            await self._finish_files()
            self.result = event.result
            self._settle()

    async def _deliver(self, stream: Stream, data: bytes) -> None:
        sink = self._sinks[stream]
        try:
            await sink.write(data)
        except OSError as error:
            await self._lose(sink, error)

    async def _finish_files(self) -> None:
        for sink in set(self._sinks.values()):
            try:
                await sink.finish()
            except OSError as error:
                await self._lose(sink, error)

    async def _lose(self, sink: Sink, error: OSError) -> None:
        """Go on without a sink whose reader has gone, as a command does that is told so by SIGPIPE."""
        for stream, other in list(self._sinks.items()):
            if other is sink:
                self._sinks[stream] = Null()
        sink.close()
        if isinstance(error, BrokenPipeError):
            with contextlib.suppress(ExecZMQError):
                await self.process.signal("PIPE")
        else:
            self.file_error = self.file_error or error

    async def _feed(self, source: Source) -> None:
        try:
            await feed(self.process, source)
        except ExecZMQError:
            pass  # the events tell what has become of the process
        except OSError as error:
            self.file_error = self.file_error or error
        finally:
            source.close()

    def _release(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        for task in self.tasks[1:]:
            task.cancel()
        if self.result is None and self._failure is None:
            self._failure = StatusUnknown("the events of the process ended before it did")
        self._started.set()
        self._settle()
