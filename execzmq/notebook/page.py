"""Own the hub of one kernel: which records of its pages are live, and who hears what is said in them.

Knows no widgets: `send` takes what is for the pages, `receive` what comes from them. All pages hear all that
is sent, so what is for one names the mount that it is for. In the pages is `static/hub.js`.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from execzmq.client.sync import Client, Process
from execzmq.errors import ExecZMQError, InstanceChanged
from execzmq.notebook import assets
from execzmq.notebook.record import Kind
from execzmq.notebook.terminal import TerminalEnd
from execzmq.notebook.view import ViewEnd
from execzmq.types.params import TtySize

MOST_MOUNTS = 256
"""Records that may be live at once in all pages; the oldest makes room."""
MOST_PROCESSES = 1024
"""Processes that the hub remembers; the oldest are found on their server again."""
BEGINNING_LASTS = 20.0
"""Seconds in which a page that is there shows what a cell has begun to show."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

Send: TypeAlias = Callable[[dict[str, Any], list[bytes]], None]


class End(Protocol):
    """The kernel's end of one live record."""

    def receive(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message from the page."""

    def close(self) -> None:
        """Tell the page nothing any more."""


class Hub:
    """Serves the pages of one kernel; usable from any thread, and never blocks. Bad messages have no effect.

    Args:
        send: takes a message for the pages, content and buffers.
        connect: returns a client for an environment; may block, and raise as `execzmq.connect`. It is asked
            when a user attaches to what an earlier kernel has shown, never because a record is there.
    """

    def __init__(self, send: Send, connect: Callable[[str | None], Client]) -> None:
        self.token = secrets.token_hex(8)
        self._send = send
        self._connect = connect
        self._lock = threading.Lock()
        self._processes: dict[tuple[str, int], Process] = {}
        self._beginnings: dict[tuple[str, int], tuple[TtySize, float]] = {}
        self._mounts: dict[str, tuple[Process, End]] = {}

    def know(self, process: Process) -> None:
        """Let pages show a process without looking for it."""
        with self._lock:
            self._remember(process)

    def begun(self, process: Process, begins_with: TtySize | None = None) -> None:
        """Tell the pages that a cell begins to show a process: those that hear it get what the cell shows.

        Args:
            begins_with: size of its terminal at the first byte, where the page that is there now is to see
                all from there on; a later one sees the screen as it is.
        """
        self.know(process)
        if begins_with is not None:
            with self._lock:
                self._beginnings[_key(process)] = begins_with, time.monotonic() + BEGINNING_LASTS
        self._send({"type": "begun", "id": process.process_id, "instance": str(process.instance)}, [])

    def ended(self, process: Process, data: dict[str, str]) -> None:
        """Tell the pages what the record is in the end: one that was loaded anew would not be told."""
        facts = {"id": process.process_id, "instance": str(process.instance)}
        self._send({"type": "ended", **facts, "data": data}, [])

    def shown(self, process: Process, seq: int) -> None:
        """Tell the pages that the process's cell has shown its output up to an event."""
        with self._lock:
            mounts = [mount for mount, (other, _) in self._mounts.items() if _key(other) == _key(process)]
        for mount in mounts:
            self._send({"type": "shown", "mount": mount, "seq": seq}, [])

    def is_watched(self, process: Process) -> bool:
        """Tell whether a page shows a process live."""
        with self._lock:
            return any(_key(other) == _key(process) for other, _ in self._mounts.values())

    def close(self) -> None:
        """Leave all records to themselves; idempotent."""
        with self._lock:
            mounts, self._mounts = self._mounts, {}
            self._processes.clear()
            self._beginnings.clear()
        for _, end in mounts.values():
            end.close()

    def receive(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message from a page."""
        match content:
            case {"type": "hello"}:
                is_aside = threading.current_thread() is not threading.main_thread()
                self._send({"type": "welcome", "is_aside": is_aside}, [])
            case {"type": "asset", "name": str(name)}:
                data = assets.assets().get(name)
                self._send({"type": "asset", "name": name}, [] if data is None else [data])
            case {"type": "mount", "mount": str(mount)} if _ID.fullmatch(mount):
                self._mount(mount, content)
            case {"type": "unmount", "mount": str(mount)}:
                self._unmount(mount)
            case {"type": "to", "mount": str(mount), "content": inner}:
                self._pass_on(mount, inner, buffers)

    def _mount(self, mount: str, content: dict[str, Any]) -> None:
        try:
            process_id, instance = str(content["process_id"]), int(content["instance"])
            on, kind = content.get("on"), content["kind"]
        except (KeyError, TypeError, ValueError, OverflowError):
            return
        if not _ID.fullmatch(process_id) or kind not in ("view", "terminal"):
            return
        with self._lock:
            process = self._processes.get((process_id, instance))
        if process is not None:
            self._open(mount, process, kind)
        elif on is None or (isinstance(on, str) and _ID.fullmatch(on)):
            find = (mount, process_id, instance, on, kind)
            threading.Thread(target=self._find, args=find, name="execzmq-find", daemon=True).start()

    def _find(self, mount: str, process_id: str, instance: int, on: str | None, kind: Kind) -> None:
        try:
            process = self._connect(on).attach(process_id)
            if process.instance != instance:
                raise InstanceChanged(f"{process_id} is another process by now", instance=process.instance)
        except (ExecZMQError, OSError) as error:
            self._send({"type": "refused", "mount": mount, "text": str(error)}, [])
            return
        self.know(process)
        self._open(mount, process, kind)

    def _open(self, mount: str, process: Process, kind: Kind) -> None:
        def send(content: dict[str, Any], buffers: list[bytes]) -> None:
            self._send({"type": "to", "mount": mount, "content": content}, buffers)

        end = self._terminal_end(process, send) if kind == "terminal" else ViewEnd(process, send)
        with self._lock:
            gone = [self._mounts.pop(mount, None)]
            if len(self._mounts) >= MOST_MOUNTS:
                gone.append(self._mounts.pop(next(iter(self._mounts))))
            self._mounts[mount] = (process, end)
        for old in gone:
            if old is not None:
                old[1].close()
        self._send({"type": "mounted", "mount": mount, "kind": kind}, [])

    def _terminal_end(self, process: Process, send: Send) -> TerminalEnd:
        with self._lock:
            size, until = self._beginnings.pop(_key(process), (None, 0.0))
        return TerminalEnd(process, send, begins_with=size if time.monotonic() < until else None)

    def _unmount(self, mount: str) -> None:
        with self._lock:
            _, end = self._mounts.pop(mount, (None, None))
        if end is not None:
            end.close()

    def _pass_on(self, mount: str, content: Any, buffers: Sequence[Any]) -> None:
        with self._lock:
            _, end = self._mounts.get(mount, (None, None))
        if end is None:
            self._send({"type": "lost", "mount": mount}, [])
        else:
            end.receive(content, buffers)

    def _remember(self, process: Process) -> None:
        self._processes[_key(process)] = process
        if len(self._processes) > MOST_PROCESSES:
            oldest = next(iter(self._processes))
            del self._processes[oldest]
            self._beginnings.pop(oldest, None)


def _key(process: Process) -> tuple[str, int]:
    return process.process_id, process.instance
