"""Pseudo-terminals: made with their size and echo before anyone can look, and whether they can be spliced.

Owns nothing: callers own the descriptors that they get. It must not know processes.
"""

from __future__ import annotations

import contextlib
import os
import termios

from execzmq.keeper.launch import Tty


def open_pty(tty: Tty) -> tuple[int, int]:
    """Open a terminal of this size.

    Returns:
        Our end (master) and the command's end (slave), both close-on-exec.

    Raises:
        OSError: no terminal or no descriptor is left; nothing is left open.
    """
    master, slave = os.openpty()
    try:
        # The size is set on the slave too late if the command is already running: 0 0 is what it would see
        # first.
        termios.tcsetwinsize(slave, (tty.rows, tty.cols))
        if not tty.echo:
            _switch_echo_off(slave)
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def _switch_echo_off(slave: int) -> None:
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(slave, termios.TCSANOW, attributes)


def can_splice_pty() -> bool:
    """Try whether this kernel moves bytes from a terminal into a pipe by itself (Linux 5.10 does not)."""
    with contextlib.ExitStack() as stack:
        try:
            ends = [*open_pty(Tty(24, 80, echo=False))]
            stack.callback(_close_all, ends)
            pipe = os.pipe()
            stack.callback(_close_all, pipe)
            os.write(ends[1], b"x")
            os.set_blocking(ends[0], False)
            return os.splice(ends[0], pipe[1], 1) == 1
        except OSError:
            return False


def _close_all(fds: tuple[int, ...] | list[int]) -> None:
    for fd in fds:
        os.close(fd)
