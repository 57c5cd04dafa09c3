"""Run the command line as a user does: as a program of its own, with pipes or at a terminal."""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

from tests.support import deadline

EXECZMQ = (sys.executable, "-m", "execzmq")
SECONDS = 20.0


def environ(**more: str) -> dict[str, str]:
    """Return our variables and `more`, with compiled modules kept: each program would compile them anew."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more


def execzmq(*words: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run one command line to its end, stdin empty and output captured unless told otherwise."""
    chosen = {"stdin": subprocess.DEVNULL, "capture_output": True, "env": environ(), **options}
    if "input" in chosen:
        del chosen["stdin"]
    return subprocess.run([*EXECZMQ, *words], timeout=deadline(SECONDS).left(), check=False, **chosen)


@contextlib.contextmanager
def running(*words: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Run one command line meanwhile; it is killed where it has not ended."""
    pipe = subprocess.PIPE
    chosen = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "env": environ(), **options}
    chosen.setdefault("preexec_fn", _heed_signals)
    with subprocess.Popen([*EXECZMQ, *words], **chosen) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _heed_signals() -> None:
    """Undo that the tests may run in a script's background, where interrupts are ignored."""
    for signo in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(signo, signal.SIG_DFL)


def read_until(fd: int, wanted: bytes, *, said: bytes = b"") -> bytes:
    """Read a descriptor until `wanted`, a regular expression, is in what it said; return all of that.

    Args:
        said: what was read before.
    """
    limit = deadline(SECONDS)
    while not re.search(wanted, said, re.DOTALL):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        ready = poll.poll(limit.left() * 1000)
        assert ready, f"{wanted!r} is not in {said[-500:]!r}"
        piece = os.read(fd, 65536)
        assert piece, f"{wanted!r} is not in {said[-500:]!r}, and nothing follows"
        said += piece
    return said


class UserTerminal:
    """A terminal with a user at it who runs one command line; use it as a context.

    Attributes:
        process: of the command line.
        slave: descriptor of the terminal's own end, to look at its modes.
    """

    def __init__(self, *words: str, rows: int = 24, cols: int = 80, **options: Any) -> None:
        self.master, self.slave = os.openpty()
        self._unseen = b""
        self.resize(rows, cols)
        self.modes_before = termios.tcgetattr(self.slave)
        slave = self.slave

        def begin() -> None:
            _heed_signals()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*EXECZMQ, *words],
            **{"stdin": slave, "stdout": slave, "stderr": slave, "env": environ(), **options},
            start_new_session=True,
            preexec_fn=begin,
        )

    def __enter__(self) -> "UserTerminal":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()
        if self.slave != -1:
            os.close(self.slave)

    def hang_up(self) -> None:
        """Close the window."""
        master, self.master = self.master, -1
        if master != -1:
            os.close(master)

    def resize(self, rows: int, cols: int) -> None:
        """Drag the window to another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def expect(self, wanted: bytes) -> bytes:
        """Look at the screen until `wanted`, a regular expression, comes after what was looked at before.

        Return what there was up to its end.
        """
        said = read_until(self.master, wanted, said=self._unseen)
        found = re.search(wanted, said, re.DOTALL)
        assert found is not None
        self._unseen = said[found.end() :]
        return said[: found.end()]

    def is_raw(self) -> bool:
        """Tell whether keys go through as they are."""
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def end(self) -> int:
        """Wait until the command line has ended; return its status, as a shell has it."""
        status = self.process.wait(deadline(SECONDS).left())
        return status if status >= 0 else 128 - status

    def is_as_before(self) -> bool:
        """Tell whether the terminal has the modes that it had before."""
        return termios.tcgetattr(self.slave) == self.modes_before

    def send_signal(self, signo: signal.Signals) -> None:
        """Signal the command line."""
        self.process.send_signal(signo)
