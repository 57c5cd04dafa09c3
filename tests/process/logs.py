"""What the tests of the log share: making output, reading all of it back, text that tells its own place."""

from execzmq.process.index import Kind, Record
from execzmq.process.log import Dropped, OutputLog
from execzmq.settings import MAX_EVENT, MIB
from execzmq.types.events import Stream

STARTED: tuple[Kind, bytes, float] = ("started", b'{"pid":1}', 1.0)
FIRST = 10_000_000
"""First number of `numbers`, so that each has eight digits."""


def add_output(log: OutputLog, data: bytes, stream: Stream = "stdout") -> None:
    """Add output events of at most the largest size."""
    for begin in range(0, len(data), MAX_EVENT):
        log.feed(stream, data[begin : begin + MAX_EVENT])
        log.commit(stream, 2.0)


def reopen(log: OutputLog, now: float = 9.0) -> OutputLog:
    """Close the log and take it up again as a later server does."""
    log.close()
    return OutputLog.open(log.folder, log.instance, log.budget, now, first=[STARTED])


def read_all(log: OutputLog, max_bytes: int = 4 * MIB) -> tuple[list[Record | Dropped], bytes]:
    """Return all entries of the log and all output that it still has, read page by page."""
    entries: list[Record | Dropped] = []
    output = b""
    while (page := log.page(len(entries) and end_seq(entries[-1]), max_bytes)).entries:
        entries += page.entries
        output += page.buffer
    return entries, output


def end_seq(entry: Record | Dropped) -> int:
    """Return the last seq that an entry speaks of."""
    return entry.to_seq if isinstance(entry, Dropped) else entry.seq


def numbers(begin: int, end: int) -> bytes:
    """Return what `seq` prints from `FIRST` on between two offsets: nine bytes each number."""
    first, last = begin // 9, -(-end // 9)
    whole = b"".join(b"%d\n" % (FIRST + number) for number in range(first, last))
    return whole[begin - first * 9 : end - first * 9]
