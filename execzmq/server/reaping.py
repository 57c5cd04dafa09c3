"""Own what the first process of a PID namespace owes the others there, as a server in a container may be it.

The kernel gives it every process that has lost its parent, and does nothing of its own on a signal to it.
"""

from __future__ import annotations

import asyncio
import os
import signal

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def be_first() -> None:
    """Reap whoever ends, and heed signals from now on; do nothing where this process is not the first.

    The keeper and its commands are not lost by that: nobody asks for the keeper's status, and it reaps its
    commands and their orphans itself. What comes here has entered the namespace from outside, was there
    before this program, or has outlived its keeper.
    """
    if os.getpid() != 1:
        return
    for signo in _ENDING:  # until the loop has handlers of its own
        signal.signal(signo, _end_at_once)
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, reap_all)
    reap_all()


def reap_all() -> None:
    """Reap every child that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _end_at_once(signo: int, _frame: object) -> None:
    os._exit(128 + signo)
