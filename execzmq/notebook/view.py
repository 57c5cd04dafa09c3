"""Own the kernel's end of a live view in one page: how the process is, its buttons, its stdin, its output.

Knows no comms and no widgets: `send` takes what is for the page, `receive` what comes from it. In the page is
`static/view.js`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from execzmq.client.sync import Process
from execzmq.errors import ExecZMQError, PermissionRefused, ProcessNotRunning, StdinClosed, WaitTimeout
from execzmq.notebook import view_requests as requests
from execzmq.notebook.follower import Follower
from execzmq.notebook.record import Record
from execzmq.types.results import ProcessInfo

LOOK_EVERY = 1.0
"""Seconds between two looks at a process that runs."""
GRACE = 5.0
"""Seconds between TERM and KILL when it is to stop."""
MOST_WAITING = 1024 * 1024
"""Bytes that may wait here for a program that does not read its stdin."""
_REQUEST_COST = 256


class ViewEnd:
    """Shows a process in one page and does what the page asks; usable from any thread, and never blocks.

    It begins when the page says that it is open. What the page does wrong has no effect. When the process or
    its server has gone the page is told, and nothing else happens.

    Args:
        process: any.
        send: takes a message for the page, content and buffers; called on the thread of the client's loop.
            An exception of its own ends this end.
    """

    def __init__(self, process: Process, send: Callable[[dict[str, Any], list[bytes]], None]) -> None:
        self._process = process
        self._send = send
        self._inputs: asyncio.Queue[requests.Typed] = asyncio.Queue()
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._follower: Follower | None = None
        self._cpu: tuple[float, float] | None = None
        self._told: dict[str, Any] = {}
        self._is_open = self._is_closed = False

    def receive(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message from the page."""
        request = requests.parse(content, buffers)
        if request is not None:
            self._process.portal.post(partial(self._take, request))

    def close(self) -> None:
        """Tell the page nothing any more; idempotent."""
        self._process.portal.post(self._stop)

    def _stop(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    def _take(self, request: requests.Request) -> None:
        if self._is_closed:
            return
        match request:
            case requests.Opened():
                self._open()
            case requests.Pressed(button):
                self._begin(self._press(button))
            case requests.Typed():
                self._queue(request)
            case requests.Attached(seq):
                self._detach()
                self._follower = Follower(self._process.aio, self._tell, seq)
                self._following = self._begin(self._try(self._follower.run))
            case requests.Detached():
                self._detach()
            case requests.Rendered(number):
                if self._follower is not None:
                    self._follower.acknowledge(number)

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._begin(self._watch())
            self._begin(self._type())
            self._begin(self._try(self._find_stdin))

    def _detach(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._follower = self._following = None

    def _begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._process.portal.keep(task)
        return task

    def _queue(self, typed: requests.Typed) -> None:
        cost = len(typed.data) + _REQUEST_COST
        if self._waiting + cost > MOST_WAITING:
            self._say("the program does not read its stdin: what you sent was dropped")
            return
        self._waiting += cost
        self._inputs.put_nowait(typed)

    # ---- what the page asks for

    async def _press(self, button: str) -> None:
        process = self._process.aio
        match button:
            case "interrupt":
                await self._try(partial(process.signal, "INT"), "sent SIGINT")
            case "stop":
                self._say(f"sent SIGTERM; what is left after {GRACE:g} s is killed")
                await self._try(partial(process.terminate, GRACE))
            case "kill":
                await self._try(process.kill, "killed it and all that it started")

    async def _type(self) -> None:
        while True:
            typed = await self._inputs.get()
            self._waiting -= len(typed.data) + _REQUEST_COST
            if typed.is_end:
                await self._try(self._close_stdin)
            else:
                await self._try(partial(self._process.aio.write, typed.data))

    async def _find_stdin(self) -> None:
        with suppress(StdinClosed, PermissionRefused):  # there is none for this client
            await self._process.aio.write(b"")
            self._tell({"type": "stdin", "is_open": True}, [])

    async def _close_stdin(self) -> None:
        await self._process.aio.close_stdin()
        self._say("closed its stdin")
        if not (await self._process.aio.info()).tty:
            self._tell({"type": "stdin", "is_open": False}, [])

    async def _try(self, do: Callable[[], Awaitable[Any]], words: str = "") -> None:
        try:
            await do()
        except StdinClosed as error:
            self._tell({"type": "stdin", "is_open": False}, [])
            self._say(error.message)
        except ProcessNotRunning:
            self._say("it has ended")
        except ExecZMQError as error:
            self._say(error.message)
        else:
            if words:
                self._say(words)

    # ---- how the process is

    async def _watch(self) -> None:
        try:
            while True:
                info = await self._process.aio.info(usage=True)
                self._tell_status(info)
                if info.ending("closed") is not None:
                    return
                with suppress(WaitTimeout):
                    await self._process.aio.wait(LOOK_EVERY, closed=info.exited)
        except ExecZMQError as error:
            self._tell({"type": "gone", "text": error.message}, [])

    def _tell_status(self, info: ProcessInfo) -> None:
        status = status_of(info, time.time())
        status["usage"] = self._usage(info)
        if {**status, "elapsed": 0} != {**self._told, "elapsed": 0}:
            self._told = status
            self._tell(status, [])

    def _usage(self, info: ProcessInfo) -> dict[str, Any] | None:
        """Return what the process uses; its CPU as a part of one processor since the last look."""
        usage = info.usage
        if usage is None:
            return None
        now = asyncio.get_running_loop().time()
        before, self._cpu = self._cpu, (now, usage.cpu_seconds)
        busy = None
        if before is not None and now > before[0]:
            busy = max(usage.cpu_seconds - before[1], 0.0) / (now - before[0])
        return {"cpu": busy, "memory": usage.memory_bytes, "processes": usage.processes}

    def _say(self, text: str) -> None:
        self._tell({"type": "said", "text": text}, [])

    def _tell(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        try:
            self._send(content, buffers)
        except Exception:
            self._stop()  # the way to the page is broken


def status_of(info: ProcessInfo, now: float) -> dict[str, Any]:
    """Return how a process is, as the page is told; `elapsed` in seconds."""
    result = info.ending("exited")
    record = Record(info.process_id, info.instance, "view", info.argv, result=result)
    ended_at = result.ended_at if result is not None and result.ended_at else now
    return {
        "type": "status",
        "process_id": info.process_id,
        "name": info.name,
        "command": record.command,
        "pid": info.pid,
        "is_running": result is None,
        "is_closed": info.ending("closed") is not None,
        "text": "running" if result is None else str(result),
        "returncode": None if result is None else result.returncode,
        "elapsed": max(ended_at - info.started_at, 0.0) if info.started_at else None,
        "seq": info.last_seq,
        "output_bytes": sum(info.output_bytes.values()),
    }
