"""The two sides of a command's streams while it is being started.

Owns every descriptor that is opened for one start: the command's ends are closed in any case, ours unless
they are handed on. It must not know how the command starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

from execzmq.keeper.launch import Launch, Tty
from execzmq.keeper.pty import open_pty

_OUTPUTS = ((1, "stdout"), (2, "stderr"))


class Streams:
    """Open a command's streams; leaving the context closes all that was not taken.

    Attributes:
        theirs: the command's descriptors by number.
        ours: our ends by name, non-blocking.

    Raises:
        OSError: one cannot be opened; none is left open.
    """

    def __init__(self, launch: Launch, fds: Mapping[str, int]) -> None:
        self.theirs: dict[int, int] = {}
        self.ours: dict[str, int] = {}
        self._given: list[int] = []
        self._is_taken = False
        try:
            self._open(launch, fds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Streams:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take(self) -> dict[str, int]:
        """Hand our ends to the caller, who closes them from now on."""
        self._is_taken = True
        return self.ours

    def close(self) -> None:
        """Close the command's ends, and ours if nobody took them."""
        if not self._is_taken:
            self._given += self.take().values()
        while self._given:
            os.close(self._given.pop())

    def _open(self, launch: Launch, fds: Mapping[str, int]) -> None:
        if launch.tty is not None:
            self._open_terminal(launch.tty)
        else:
            self._open_stdin(launch, fds)
            self._open_outputs(launch.merge_stderr)
        for name, number in launch.passed.items():
            self.theirs[number] = fds[name]

    def _open_terminal(self, tty: Tty) -> None:
        master, slave = open_pty(tty)
        self._keep("pty", master)
        # Were our copy of the slave left open, the terminal would never end.
        self._give(0, slave)
        self.theirs |= {1: slave, 2: slave}
        reader, writer = os.pipe()
        self._keep("mid_r", reader)
        self._keep("mid_w", writer)

    def _open_stdin(self, launch: Launch, fds: Mapping[str, int]) -> None:
        if launch.stdin == "fd":
            self.theirs[0] = fds["stdin"]
        elif launch.stdin == "pipe":
            reader, writer = os.pipe()
            self._give(0, reader)
            self._keep("stdin", writer)
        else:
            self._give(0, os.open("/dev/null", os.O_RDONLY))

    def _open_outputs(self, merge: bool) -> None:
        for number, name in _OUTPUTS[:1] if merge else _OUTPUTS:
            reader, writer = os.pipe()
            self._given.append(writer)
            self.theirs[number], self.ours[name] = writer, reader
            os.set_blocking(reader, False)
        if merge:
            self.theirs[2] = self.theirs[1]

    def _give(self, number: int, fd: int) -> None:
        self.theirs[number] = fd
        self._given.append(fd)

    def _keep(self, name: str, fd: int) -> None:
        self.ours[name] = fd
        # O_NONBLOCK belongs to the open file description: the command's end is another one and blocks.
        os.set_blocking(fd, False)
