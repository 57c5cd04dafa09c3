"""Own what is sent in one turn of the loop: it leaves at the end of the turn, in one go.

To wake ZeroMQ's thread costs ten times what it takes to write a message, and it sleeps again while the next
message is being made. Knows nothing of what the messages say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import zmq

from execzmq.zmqloop import ZmqPort

Frames: TypeAlias = Sequence[bytes | memoryview | zmq.Frame]


class Outgoing:
    """The messages of this turn.

    Attributes:
        unsent: how many could not be sent since their peer had gone or took nothing.
    """

    def __init__(self) -> None:
        self.unsent = 0
        self._loop = asyncio.get_running_loop()
        self._messages: list[tuple[ZmqPort, Frames, bool]] = []

    def send(self, port: ZmqPort, frames: Frames, *, copy: bool = True) -> None:
        """Send a message at the end of this turn; where that cannot be, it is dropped and counted."""
        if not self._messages:
            self._loop.call_soon(self._flush)
        self._messages.append((port, frames, copy))

    def _flush(self) -> None:
        messages, self._messages = self._messages, []
        for port, frames, copy in messages:
            try:
                sent = port.send(frames, copy=copy)
            except zmq.ZMQError:
                sent = False
            except Exception as error:  # it must not cost the others their message
                self._loop.call_exception_handler(
                    {"message": "execzmq: a message could not be sent", "exception": error}
                )
                sent = False
            self.unsent += not sent
