"""Own `Popen`: `subprocess.Popen`'s face on a process of a backend, with real pipes in the caller.

The copying is `pump`'s, on the client's loop; this is what blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import subprocess
from types import GenericAlias, TracebackType
from typing import IO, Any, ClassVar, Unpack

from execzmq.client.arguments import PIPE, Command
from execzmq.client.communicate import Talk, countdown
from execzmq.client.pipes import PipeSink, PipeSource, open_pipe
from execzmq.client.plan import Plan, SubprocessOptions, TextMode, popen_plan
from execzmq.client.pump import Pump
from execzmq.client.redirect import open_outputs, open_source
from execzmq.client.run import start_whole
from execzmq.client.signatures import options_from
from execzmq.client.sinks import Sink
from execzmq.client.sources import Source
from execzmq.client.sync import Client
from execzmq.errors import ProcessNotFound, ProcessNotRunning, StatusUnknown
from execzmq.types.events import Stream
from execzmq.types.results import ExitResult

INTERRUPT_GRACE = 0.25
"""Seconds that leaving a `with` by KeyboardInterrupt waits for the command, as in `subprocess`."""


class Popen:
    """A command with `subprocess.Popen`'s attributes and methods.

    Its defaults are `subprocess.Popen`'s own (a str is a program's name unless `shell` is given), except
    that nothing is inherited, since the command is not a child of this process:

    * stdout and stderr that are not given are copied to the caller's own; stdin that is not given is empty,
      with `INHERIT` the caller's own is read.
    * A file or descriptor given as stdin, stdout or stderr stays in the caller; its bytes are copied, whether
      or not anyone calls `communicate`, and the command sees a pipe. `wait` returns when what the command
      wrote is in the files; an error of such a file is raised there.
    * `PIPE` makes a real pipe, whose end can be another command's stdin or stdout. When its reader closes it,
      the command gets SIGPIPE once more output comes.
    * A reader that sleeps loses nothing. `wait` and `poll` see the exit even while unread output is waiting.
    * `send_signal` and `terminate` reach the command's process group; `kill` ends the whole tree. The command
      has a session of its own, so the terminal's Ctrl-C does not reach it; after KeyboardInterrupt, a `with`
      block passes SIGINT on.
    * Text is UTF-8 unless `encoding` is given; in output what is none is replaced unless `errors` is given.
    * `pid` is a number of the machine where the command runs. When the caller ends without a wait, the
      command goes on.
    * Keywords whose work would have to be done in the child by this process raise ValueError unless they
      ask for what holds anyway: `preexec_fn`, `pass_fds`, `close_fds=False`, `restore_signals=False`,
      `process_group`, `user`, `group`, `extra_groups`, `startupinfo`, `creationflags`.

    Args:
        args: the command.
        client: where it runs.
        options: the keywords of `SubprocessOptions`.

    Raises:
        SpawnFailed: the command could not be started, by the name of a subclass.
        OSError: a descriptor is not open. TypeError, ValueError: the keywords; nothing was started.
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)
    """`Popen[bytes]` and `Popen[str]` in annotations of moved code."""

    @options_from(SubprocessOptions)
    def __init__(self, args: Command, *, client: Client, **options: Unpack[SubprocessOptions]) -> None:
        client.connect()
        plan = popen_plan(args, options, client.aio.caller())
        self.args = args
        self.returncode: int | None = None
        self.result: ExitResult | None = None
        self._client = client
        self._text = plan.text
        self._talk: Talk | None = None
        ends = _Ends(plan, options.get("pipesize", -1))
        try:
            self._pump = client.portal.call(_open(client, plan, ends))
        except BaseException:
            ends.close()
            raise
        bufsize = -1 if (given := options.get("bufsize")) is None else given
        self.stdin: IO[Any] | None = _writer(ends.callers.get("stdin"), bufsize, plan.text)
        self.stdout: IO[Any] | None = _reader(ends.callers.get("stdout"), bufsize, plan.text)
        self.stderr: IO[Any] | None = _reader(ends.callers.get("stderr"), bufsize, plan.text)

    @property
    def process_id(self) -> str:
        """The id under which any client finds the process."""
        return self._pump.process.process_id

    @property
    def pid(self) -> int:
        """The command's process number on the machine where it runs."""
        return self._client.portal.call(self._pump.pid())

    def poll(self) -> int | None:
        """Return the command's code, `None` while it runs.

        Raises:
            StatusUnknown: it is over and nobody knows how. ServerLost.
        """
        if self.returncode is None:
            self._note(self._pump.result or self._client.portal.call(self._pump.poll()))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the command has ended and what it wrote to files is there; return its code.

        KeyboardInterrupt ends the wait, not the command.

        Raises:
            subprocess.TimeoutExpired: not within `timeout` seconds (`None` = no limit).
            OSError: a file given as stdin, stdout or stderr failed.
            StatusUnknown: it is over and nobody knows how. ServerLost.
        """
        if self.returncode is None:
            self._note(self._client.portal.call(_within(self._pump, timeout)))
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        if (error := self._pump.take_file_error()) is not None:
            raise error
        return self.returncode

    def communicate(self, input: bytes | str | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `input` to stdin, read the piped streams to their ends, wait; return what was read.

        After a timeout it can be called again, without input: nothing has been lost.

        Raises:
            subprocess.TimeoutExpired: not within `timeout` seconds; what was read so far is in it.
            ValueError: input without `stdin=PIPE`, or a second time. Others as for `wait`.
        """
        if input and (self._talk is not None or self.stdin is None):
            raise ValueError("input is for the first communicate() of a command with stdin=PIPE")
        if self._talk is None:
            files = [file for file in (self.stdout, self.stderr) if file is not None and not file.closed]
            stdin = None if self.stdin is None or self.stdin.closed else self.stdin
            self._talk = Talk(stdin, files, self._encoded(input))
        left = countdown(timeout)
        is_done = self._talk.go_on(left)
        stdout, stderr = self._talk.data_of(self.stdout), self._talk.data_of(self.stderr)
        if not is_done:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout, stdout, stderr)
        self.wait(left())
        return self._decoded(stdout), self._decoded(stderr)

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command's process group; nothing happens where it has ended."""
        with contextlib.suppress(ProcessNotRunning, ProcessNotFound):
            self._client.portal.call(self._pump.process.signal(int(sig)))

    def terminate(self) -> None:
        """Send SIGTERM to the command's process group."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole tree by KILL."""
        with contextlib.suppress(ProcessNotRunning, ProcessNotFound):
            self._client.portal.call(self._pump.process.terminate(0.0))

    def __enter__(self) -> Popen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        try:
            if self.stdin is not None:
                self.stdin.close()
        finally:
            if kind is not None and issubclass(kind, KeyboardInterrupt):
                self._pass_interrupt_on()
            else:
                self.wait()

    def __repr__(self) -> str:
        return f"<Popen: returncode: {self.returncode} args: {self.args!r}>"

    def _pass_interrupt_on(self) -> None:
        self.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(INTERRUPT_GRACE)

    def _note(self, result: ExitResult | None) -> None:
        if result is None:
            return
        self.result = result
        self.returncode = result.returncode
        if self.returncode is None:
            raise StatusUnknown(f"the command is over, but how it ended is not known: {result}")

    def _encoded(self, data: bytes | str | None) -> bytes:
        if isinstance(data, str):
            if self._text is None:
                raise TypeError("input must be bytes, or ask for text=True")
            return self._text.encode(data)
        return data or b""

    def _decoded(self, data: bytes | None) -> bytes | str | None:
        return data if data is None or self._text is None else self._text.decode(data)


class _Ends:
    """Both ends of what the command's streams are joined to, until the pump and the files own them."""

    def __init__(self, plan: Plan, pipe_size: int) -> None:
        self.callers: dict[str, int] = {}
        self.source: Source | None = None
        self.sinks: dict[Stream, Sink] = {}
        self._pipe_size = pipe_size
        try:
            self.source = self._open_source(plan)
            self.sinks = open_outputs(plan.stdout, plan.stderr, self._open_sink)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for fd in self.callers.values():
            os.close(fd)
        for holder in (self.source, *self.sinks.values()):
            if holder is not None:
                holder.close()

    def _open_source(self, plan: Plan) -> Source | None:
        if plan.stdin is None:
            return None
        if plan.stdin != PIPE:
            return open_source(plan.stdin)
        read_end, self.callers["stdin"] = open_pipe(self._pipe_size)
        return PipeSource(read_end)

    def _open_sink(self, stream: Stream) -> Sink:
        self.callers[stream], write_end = open_pipe(self._pipe_size)
        return PipeSink(write_end)


async def _open(client: Client, plan: Plan, ends: _Ends) -> Pump:
    pump = Pump(await start_whole(client.aio.backend, plan.params), ends.sinks, ends.source)
    for task in pump.tasks:
        client.portal.keep(task)
    return pump


async def _within(pump: Pump, seconds: float | None) -> ExitResult | None:
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await pump.wait()
    except TimeoutError:
        if not scope.expired():
            raise
    return None


def _reader(fd: int | None, bufsize: int, text: TextMode | None) -> IO[Any] | None:
    if fd is None:
        return None
    file = open(fd, "rb", _buffering(bufsize, text))  # noqa: SIM115  # the caller closes it
    if text is None:
        return file
    return io.TextIOWrapper(file, text.encoding, text.errors or "replace")


def _writer(fd: int | None, bufsize: int, text: TextMode | None) -> IO[Any] | None:
    if fd is None:
        return None
    file = open(fd, "wb", _buffering(bufsize, text))  # noqa: SIM115  # the caller closes it
    if text is None:
        return file
    return io.TextIOWrapper(
        file,
        text.encoding,
        text.errors or "strict",
        line_buffering=bufsize == 1,
        write_through=True,
    )


def _buffering(bufsize: int, text: TextMode | None) -> int:
    return -1 if bufsize == 1 and text is not None else bufsize  # lines are the text layer's
