"""The keeper's signals: which it catches, and that no other oddity of its own start reaches a command.

Owns this process's dispositions and mask. A caught signal falls back to its default at exec, an ignored one
would not: so the keeper catches what it means to ignore.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from types import FrameType

# Python itself ignores the last two. These are the only ones that a command could inherit.
NOT_DEFAULT = (
    signal.SIGCHLD,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    # What a command may send to its parent, meaning the shell that it thinks started it.
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)

_RT_SIGACTION = {"x86_64": 13, "aarch64": 134, "riscv64": 134, "ppc64le": 173, "s390x": 174}
"""Number of the system call by machine."""
_INTERNAL = 1 << 31 | 1 << 32


def take_over() -> int:
    """Set every signal as the keeper needs it, whatever was inherited.

    Returns:
        The reading end of a pipe, which the caller owns: it gets a byte at each caught signal.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _reset_internal()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *NOT_DEFAULT}:
        signal.signal(number, signal.SIG_DFL)
    for number in NOT_DEFAULT:
        signal.signal(number, _do_nothing)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _reset_internal() -> None:
    """Give the two signals that the C library keeps for itself their default, where they came ignored.

    Whoever starts programs by posix_spawn, as make does, leaves them so; the library refuses to change them.
    """
    call = _RT_SIGACTION.get(os.uname().machine)
    if sys.platform != "linux" or call is None or not _ignored() & _INTERNAL:
        return
    default = ctypes.create_string_buffer(64)
    for number in (32, 33):
        ctypes.CDLL(None).syscall(call, number, default, None, 8)


def _ignored() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 16) for line in status if line.startswith("SigIgn:")), 0)


def reset() -> None:
    """Give a forked child the defaults; to be called with all signals blocked, which ends here."""
    signal.set_wakeup_fd(-1)
    for number in NOT_DEFAULT:
        signal.signal(number, signal.SIG_DFL)
    # A signal that came since the fork was meant for the command and meets the default now, not a handler.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Catch a signal without following it: the keeper ends by `quit`, or when its work has ended."""
