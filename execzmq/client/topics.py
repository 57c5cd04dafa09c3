"""Own the subscriptions of one client and who hears which process; knows no request.

A subscription holds from the moment at which the server welcomes one that was made after it: `settle`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from execzmq.client.links import plain
from execzmq.errors import ExecZMQError, RequestTimeout
from execzmq.protocol.values import Announcement, announcement_from_broadcast, announcements_from_tails
from execzmq.protocol.wire import Codec, Frame
from execzmq.settings import CALL_TIMEOUT
from execzmq.zmqloop import Frames

_WELCOME_AGAIN = 1.0
"""Seconds after which a welcome that has not come is asked for under another topic."""


class Heard:
    """A broadcast under the topic of a process, decoded when somebody first asks what it says.

    Args:
        decode: returns what the frames say, `None` where they are refused.
        word: last part of the topic; a hint, as nobody has signed it.
        frames: from the delimiter on.
    """

    __slots__ = ("_announcement", "_decode", "frames", "word")

    def __init__(
        self, decode: Callable[[Sequence[Frame]], Announcement | None], word: bytes, frames: list[Frame]
    ) -> None:
        self._decode: Callable[[Sequence[Frame]], Announcement | None] | None = decode
        self._announcement: Announcement | None = None
        self.word = word
        self.frames = frames

    def announcement(self) -> Announcement | None:
        """Return what it says, or `None` where it is not to be believed."""
        if self._decode is not None:
            self._announcement, self._decode = self._decode(self.frames), None
        return self._announcement


class Listener(Protocol):
    """Whoever follows one process."""

    def hear(self, heard: Heard) -> None:
        """Take a broadcast."""

    def resume(self) -> None:
        """Look at the log again: broadcasts may have been missed."""

    def fail(self, error: ExecZMQError) -> None:
        """End: nothing more will come."""


class Topics:
    """Which broadcasts this client has asked for, and to whom they go.

    Args:
        subscribe, unsubscribe: act on the socket.
        on_status: called with the epoch and the word of a `server_status`.
    """

    def __init__(
        self,
        codec: Codec,
        prefix: str,
        subscribe: Callable[[bytes], None],
        unsubscribe: Callable[[bytes], None],
        on_status: Callable[[str, str], None],
    ) -> None:
        self._codec = codec
        self._own = f"{prefix}-"
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._on_status = on_status
        self._listeners: dict[bytes, list[Listener]] = {}
        self._holders: Counter[str] = Counter()
        self._welcomes: dict[bytes, asyncio.Future[None]] = {}
        self._refused = 0
        subscribe(b"s.")
        subscribe(f"p.{self._own}".encode())

    def handle(self, frames: Frames) -> None:
        """Take one broadcast; nothing is decoded here but what the server says of itself."""
        topic = frames[0].bytes
        kind, _, rest = topic.partition(b".")
        if kind == b"p":
            process_id, _, word = rest.partition(b".")
            if word and process_id in self._listeners:
                heard = Heard(partial(self._decode, process_id), word, plain(frames[1:]))
                self._tell(process_id, heard)
            elif rest.endswith(b"*"):  # which no id has
                self._tails(rest[:-1], plain(frames[1:]))
        elif kind == b"w":
            self._welcome(topic)
        elif kind == b"s" and rest:
            self._status(frames)

    def listen(self, process_id: str, listener: Listener) -> None:
        """Send the broadcasts of a process to `listener` too, as far as they are subscribed."""
        self._listeners.setdefault(process_id.encode(), []).append(listener)

    def leave(self, process_id: str, listener: Listener) -> None:
        """Send nothing more to `listener`; no error if it did not listen."""
        key = process_id.encode()
        listeners = self._listeners.get(key, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[key]

    def is_own(self, process_id: str) -> bool:
        """Tell whether this client has made that id, so that it is subscribed since the connection."""
        return process_id.startswith(self._own)

    def hold(self, process_id: str) -> bool:
        """Subscribe to a process; return whether that is new, so that `settle` is needed."""
        if self.is_own(process_id):
            return False
        self._holders[process_id] += 1
        if self._holders[process_id] == 1:
            self._subscribe(_topic(process_id))
        return True

    def release(self, process_id: str) -> None:
        """Take one `hold` back."""
        if process_id not in self._holders:
            return
        self._holders[process_id] -= 1
        if not self._holders[process_id]:
            del self._holders[process_id]
            self._unsubscribe(_topic(process_id))

    async def settle(self, seconds: float = CALL_TIMEOUT) -> None:
        """Wait until every subscription made so far is in force. Cancelling leaves nothing.

        Raises:
            RequestTimeout: the server has not said so within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                while not await self._welcomed():
                    pass
        except TimeoutError:
            raise RequestTimeout(f"no subscription was confirmed within {seconds:g} s") from None

    def resume_all(self) -> None:
        """Let every listener look at the log again."""
        for listener in self._everybody():
            listener.resume()

    def fail_all(self, error: ExecZMQError) -> None:
        """End every listener."""
        for listener in self._everybody():
            listener.fail(error)

    def statistics(self) -> dict[str, int]:
        """Return how many listeners and process subscriptions there are, and what was refused."""
        return {
            "listeners": len(self._everybody()),
            "held": len(self._holders),
            "refused_broadcasts": self._refused,
        }

    def _everybody(self) -> list[Listener]:
        return [listener for listeners in self._listeners.values() for listener in listeners]

    def _tell(self, process_id: bytes, heard: Heard) -> None:
        for listener in tuple(self._listeners.get(process_id, ())):
            listener.hear(heard)

    def _tails(self, family: bytes, frames: list[Frame]) -> None:
        """Tell those who follow one of a family of processes where its log ends."""
        if not any(process_id.startswith(family) for process_id in self._listeners):
            return
        try:
            announcements = announcements_from_tails(self._codec.decode(frames))
        except ExecZMQError:
            self._refused += 1
            return
        for announcement in announcements:
            process_id = announcement.process_id.encode()
            if not process_id.startswith(family):
                self._refused += 1
            elif process_id in self._listeners:
                self._tell(process_id, Heard(partial(_known, announcement), b"tail", []))

    def _decode(self, process_id: bytes, frames: Sequence[Frame]) -> Announcement | None:
        try:
            announcement = announcement_from_broadcast(self._codec.decode(frames))
        except ExecZMQError:
            self._refused += 1
            return None
        if announcement.process_id.encode() != process_id:
            self._refused += 1
            return None
        return announcement

    def _status(self, frames: Frames) -> None:
        try:
            content = self._codec.decode(plain(frames[1:])).content
        except ExecZMQError:
            self._refused += 1
            return
        self._on_status(str(content.get("epoch")), str(content.get("status")))

    def _welcome(self, topic: bytes) -> None:
        waiting = self._welcomes.get(topic)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def _welcomed(self) -> bool:
        """Subscribe to a topic that nobody else has and wait a while for its welcome."""
        topic = b"w." + secrets.token_hex(12).encode()
        welcome = self._welcomes[topic] = asyncio.get_running_loop().create_future()
        self._subscribe(topic)
        try:
            await asyncio.wait((welcome,), timeout=_WELCOME_AGAIN)
            return welcome.done()
        finally:
            welcome.cancel()
            del self._welcomes[topic]
            self._unsubscribe(topic)


def _known(announcement: Announcement, _frames: Sequence[Frame]) -> Announcement:
    return announcement


def _topic(process_id: str) -> bytes:
    return f"p.{process_id}.".encode()
