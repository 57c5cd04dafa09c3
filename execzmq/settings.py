"""Own every limit and default, in one frozen value; seconds are float, sizes bytes, `None` = no limit."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

VERSION = "0.1.0"
PROTOCOL_VERSION = 1
DEFAULT_NAME = "default"

MAX_EVENT = 256 * KIB
"""Largest output event: what one gather of one stream puts into the log."""
GATHER_TIME = 0.002
"""Seconds after which an output event is closed although more may come."""
PAGE = 4 * MIB
"""Most output bytes in one page of `read`."""
PAGE_EVENTS = 4096
"""Most events in one page, which bounds the packing of tiny ones."""
LIVE_EVENT = 64 * KIB
"""Largest event that is broadcast whole; a larger one is announced as `behind`."""
LIVE_RATE = 32 * MIB
"""Bytes a second of one process above which only `behind` is broadcast."""
LIVE_INTERVAL = 0.010
"""Seconds over which the rate is judged, and between two `behind`."""
TAIL_DELAYS = (0.2, 1.0, 5.0)
"""Seconds after the last event of a process at which `process_tail` repeats where it ended."""
QUIET_AFTER = 5.0
"""Seconds without news after which a client asks by a `read`."""
LONG_POLL = 30.0
"""Most seconds that `read` and `wait` wait."""
HELD_BYTES = 4 * MIB
"""Most bytes of live events that a client holds while it reads a page."""
LEASE = 30.0
"""Most seconds of a lease."""
STARTER_GONE = 10.0
"""Seconds without a word of the starter's session after which its process is read on as with `spill`."""
STDIN_UNREAD = 16 * MIB
"""Most bytes of stdin that wait to be read by one process; a `write` beyond them is answered later."""
WRITE_PIECE = 1 * MIB
"""Most bytes in one `write`."""
SEGMENT = 4 * MIB
"""Largest segment of a log."""
DEGRADED_EACH = 1 * MIB
"""Most bytes of output that one process has in memory while the disk takes nothing."""
DEGRADED_TOTAL = 16 * MIB
"""The same of all processes of a server together."""
RESERVE = 256 * KIB
"""Bytes on disk that are kept for ends, closings and notices, at most a sixteenth of the disk."""
REPLY_KEPT = 60.0
"""Seconds for which the answer of a changing method is kept for a repeated request."""
REPLIES_PER_SESSION = 256
REPLIES_TOTAL = 4096
SESSIONS = 65536
"""Most client sessions that a server remembers at a time."""
SHARE_SESSIONS = 256
"""Most client sessions of one share that is not an owner's."""
SHARE_PENDING = 1024
"""Most requests of one such share that wait for their answer."""
SESSION_KEPT = 60.0
"""Seconds for which a session is remembered after its lease has run out."""
PAGES_PER_CLIENT = 16 * MIB
"""Most bytes of pages that are on their way to one client session, as far as it says so itself."""
PAGES_TOTAL = 16 * MIB
"""Bytes of pages that the sockets keep for all clients, beyond which each has one small page at a time."""
SMALL_PAGE = 512 * KIB
XPUB_HWM = 64
"""Messages queued for one subscriber; with events of at most 64 KiB that is 4 MiB."""
MAX_MESSAGE = 8 * MIB
"""Largest frame that a socket of the server accepts."""
MAX_CONTENT = 4 * MIB
"""Most bytes of a packed `content`."""
MAX_HEADER = 64 * KIB
"""Most bytes of a packed header, parent header or metadata."""
MAX_NESTING = 32
"""Most levels of maps and lists in a message."""
MAX_CONTAINERS = 256 * KIB
"""Most maps and lists in a message, which bounds the memory that a small frame unpacks to."""
MAX_BUFFERS = 16
"""Most buffers of one message."""
MAX_ROUTING = 8
"""Most frames before the delimiter of a message: identities or a topic."""
MAX_TOPICS = 4096
"""Most subscriptions of one connection."""
MAX_SUBSCRIPTION = KIB
"""Largest frame that comes in at the socket of the broadcasts, those of a CURVE handshake included."""
MAX_STRING = 131071
"""Most bytes in one argument or variable (Linux: MAX_ARG_STRLEN less its NUL)."""
SCREEN_ROWS = 200
SCREEN_COLS = 500
"""Size of the largest screen that is told; of a larger terminal it is the upper left part."""
FINISHED_KEPT = 256
"""Finished processes that are kept in any case (within the disk budget)."""
FINISHED_MOST = 4096
"""Most finished processes that are kept."""
FINISHED_AGE = 600.0
"""Seconds for which finished processes beyond `FINISHED_KEPT` are kept."""
SERVER_GONE = 5.0
"""Seconds without a connection after which a client says that the server is lost."""
CALL_TIMEOUT = 30.0
"""Seconds after which a call that has no answer raises `RequestTimeout`."""
RESEND_AFTER = 5.0
"""Seconds after which an unanswered request is sent again with the same id."""
HEARTBEAT_INTERVAL = 1.0
HEARTBEAT_TIMEOUT = 15.0
"""Seconds after which a connection whose peer says nothing is closed (ZMTP)."""


@dataclass(slots=True, frozen=True)
class Settings:
    """What one server, or one local backend, is told at its start.

    Args:
        log_budget: bytes of output kept at least per process.
        disk_budget: bytes of all logs together; also at most a tenth of the free disk.
        idle_timeout: seconds without work after which the server ends by itself; `None` = never.
        shutdown_grace: seconds between TERM and KILL when the server ends.
        profile: permission profile of a start that names none, and the most that any start gets.
        transport: `tcp` listens on the network from the start; `ipc` does so at the first share.
        ip: address to listen at on the network; empty = that by which others most likely reach this host.
        insecure: listen there without CURVE; there can be no shares then.
    """

    log_budget: int = 64 * MIB
    disk_budget: int = 2 * GIB
    idle_timeout: float | None = None
    shutdown_grace: float = 5.0
    profile: str = "full-access"
    transport: str = "ipc"
    ip: str = ""
    insecure: bool = False
