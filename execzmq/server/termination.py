"""Own the end of a ZeroMQ context: it comes within a limit, whatever libzmq still waits for in it."""

from __future__ import annotations

import logging
import threading

import zmq

log = logging.getLogger("execzmq.server")

TERMINATION = 3.0
"""Seconds for the end of a context; its sockets linger for at most half a second of them."""


def terminate(context: zmq.Context[zmq.Socket[bytes]], *threads: threading.Thread) -> bool:
    """End a context, and with it the threads that wait at its sockets; return whether it has ended in time.

    libzmq's call has no limit. One that hangs is left to its thread, which nothing waits for.
    """
    ending = threading.Thread(target=context.term, name="execzmq-term", daemon=True)
    ending.start()
    for thread in (ending, *threads):
        thread.join(TERMINATION)
    late = [thread.name for thread in (ending, *threads) if thread.is_alive()]
    if late:
        log.warning("ZeroMQ does not end within %g s and is left: %s", TERMINATION, ", ".join(late))
    return not late
