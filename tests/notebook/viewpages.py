"""Pages that are no browsers: they keep what they hear, and say what a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from execzmq.client.sync import Client, Process
from execzmq.notebook.page import Hub
from execzmq.notebook.view import ViewEnd
from tests.support import deadline


class Hearing:
    """Keeps messages, and lets a test wait for them."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], list[bytes]]] = []
        self._changed = threading.Condition()

    def hear(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Take a message."""
        with self._changed:
            self.messages.append((content, buffers))
            self._changed.notify_all()

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return the messages of a kind."""
        with self._changed:
            return [content for content, _ in self.messages if content["type"] == kind]

    def last(self, kind: str) -> dict[str, Any]:
        """Return the last message of a kind; empty where there is none."""
        return next(iter(self.all(kind)[::-1]), {})

    def wait(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait until something holds that the messages decide."""
        limit = deadline(seconds)
        with self._changed:
            while not condition():
                self._changed.wait(limit.left())


class ViewPage(Hearing):
    """One page with one live view.

    Args:
        renders: acknowledge output; a page that does not is stuck, or dead.
    """

    def __init__(self, process: Process, *, renders: bool = True) -> None:
        super().__init__()
        self.renders = renders
        self.output: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.pieces: list[list[Any]] = []
        self.end = ViewEnd(process, self.hear)

    def say(self, kind: str, /, *buffers: bytes, **fields: Any) -> None:
        """Say something to the kernel."""
        self.end.receive({"type": kind, **fields}, list(buffers))

    @property
    def text(self) -> str:
        """How the process is, as the page was told last."""
        return str(self.last("status").get("text", ""))

    @property
    def said(self) -> list[str]:
        """All single words to the user."""
        return [content["text"] for content in self.all("said")]

    def hear(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Take a message; of output take the bytes."""
        if content["type"] == "output":
            at = 0
            for kind, size in content["pieces"]:
                self.pieces.append([kind, size])
                if kind in self.output:
                    self.output[kind] += buffers[0][at : at + size]
                    at += size
        super().hear(content, buffers)
        if content["type"] == "output" and self.renders:
            self.say("rendered", number=content["number"])


class HubPage(Hearing):
    """All pages of one kernel.

    Args:
        connect: as of `Hub`.
    """

    def __init__(self, connect: Callable[[str | None], Client]) -> None:
        super().__init__()
        self.hub = Hub(self.hear, connect)

    def say(self, kind: str, /, *buffers: bytes, **fields: Any) -> None:
        """Say something to the kernel."""
        self.hub.receive({"type": kind, **fields}, list(buffers))

    def mount(self, mount: str, process: Process, **fields: Any) -> None:
        """Ask for a live view of a process."""
        facts = {
            "process_id": process.process_id,
            "instance": str(process.instance),
            "kind": "view",
            "on": None,
        }
        self.say("mount", mount=mount, **{**facts, **fields})

    def heard(self, mount: str, kind: str) -> list[dict[str, Any]]:
        """Return what a mount's end has sent of a kind."""
        inner = [content["content"] for content in self.all("to") if content["mount"] == mount]
        return [content for content in inner if content["type"] == kind]
