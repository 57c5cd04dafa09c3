"""Terminals before anybody uses them."""

import os
import termios

import pytest

from execzmq.keeper.launch import Tty
from execzmq.keeper.pty import can_splice_pty, open_pty


@pytest.mark.parametrize("echo", [True, False])
def test_size_and_echo_are_set(echo: bool) -> None:
    """A new terminal has its size and echo already."""
    master, slave = open_pty(Tty(7, 9, echo))
    try:
        assert termios.tcgetwinsize(slave) == (7, 9)
        assert bool(termios.tcgetattr(slave)[3] & termios.ECHO) == echo
        assert not os.get_inheritable(master)
        assert not os.get_inheritable(slave)
    finally:
        os.close(master)
        os.close(slave)


def test_failure_leaves_nothing() -> None:
    """A size that the kernel cannot hold leaves no descriptor."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(Exception, match=r"."):
        open_pty(Tty(-1, 1 << 40))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_probe_leaves_nothing() -> None:
    """The probe of splice answers and closes what it opened."""
    before = len(os.listdir("/proc/self/fd"))
    assert can_splice_pty() in (True, False)
    assert len(os.listdir("/proc/self/fd")) == before
