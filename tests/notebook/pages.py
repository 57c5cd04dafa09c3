"""A page that is no browser: it renders what it is told or does not, and says what a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from execzmq.client.sync import Process
from execzmq.notebook.terminal import TerminalEnd
from execzmq.types.params import TtySize
from tests.support import deadline


class FakePage:
    """One page with one terminal.

    Args:
        process: whose terminal.
        begins_with: as of `TerminalEnd`.
        renders: acknowledge what comes; a page that does not is stuck, or dead.

    Attributes:
        messages: content and buffers of all that came but output.
        is_gone: it answers nothing any more.
        output: the output since the last picture, after that picture.
    """

    def __init__(self, process: Process, begins_with: TtySize | None = None, *, renders: bool = True) -> None:
        self.renders = renders
        self.messages: list[tuple[dict[str, Any], list[bytes]]] = []
        self.output = b""
        self.biggest = 0
        self.is_gone = False
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self.end = TerminalEnd(process, self._hear, begins_with=begins_with)

    def open(self, rows: int = 24, cols: int = 80) -> None:
        """Say that the page can show the terminal."""
        self.end.receive({"type": "opened", "rows": rows, "cols": cols})

    def say(self, kind: str, *buffers: bytes, **fields: Any) -> None:
        """Say something to the kernel."""
        self.end.receive({"type": kind, **fields}, list(buffers))

    def type(self, data: bytes, *, is_user: bool = True) -> None:
        """Type, or with `is_user` false, answer a question of the program's."""
        self.say("typed", data, is_user=is_user)

    def acknowledge(self) -> None:
        """Say that all was rendered."""
        if picture := self.last("picture"):
            self.say("rendered", picture=picture["picture"], total=len(self.output))

    def last(self, kind: str) -> dict[str, Any]:
        """Return the last message of a kind; empty where none has come."""
        return next((content for content, _ in reversed(self.messages) if content["type"] == kind), {})

    @property
    def keyboard(self) -> str:
        """Who has the keyboard, as the page was told last."""
        return str(self.last("state").get("keyboard", ""))

    def wait(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until something holds that the messages decide."""
        limit = deadline(seconds)
        with self._changed:
            while not condition():
                self._changed.wait(limit.left())

    def _hear(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        if self.error is not None:
            raise self.error
        with self._changed:
            if content["type"] in ("picture", "output"):
                self.output = buffers[0] if content["type"] == "picture" else self.output + buffers[0]
                self.biggest = max(self.biggest, len(buffers[0]))
            if content["type"] != "output":
                self.messages.append((content, buffers))
            self._changed.notify_all()
        if self.renders:
            self.acknowledge()
        if content["type"] == "ping" and not self.is_gone:
            self.say("here")
