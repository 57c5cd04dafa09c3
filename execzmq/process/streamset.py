"""Own the streams of one process together: that their order holds, and when their writers must wait.

Knows nothing of results and lifecycles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from execzmq.process.backlog import Backlog
from execzmq.process.census import StreamId
from execzmq.process.log import OutputLog
from execzmq.process.scan import stream_id
from execzmq.process.streams import StreamPump
from execzmq.process.tree import holders_of
from execzmq.types.events import Stream


class StreamSet:
    """The pumps of one process, none until it has been spawned.

    Args:
        log: what they pump into; not owned.
        backlog: when writers must wait for the starter; `None` = never.
        paused: called when writers begin to wait.
    """

    __slots__ = (
        "_discarded",
        "_is_discarding",
        "_log",
        "_paused",
        "_pumps",
        "backlog",
    )

    def __init__(self, log: OutputLog, backlog: Backlog | None, paused: Callable[[], None]) -> None:
        self.backlog = backlog
        self._paused = paused
        self._log = log
        self._pumps: dict[Stream, StreamPump] = {}
        self._is_discarding = False
        self._discarded = 0

    def take(self, pumps: Iterable[StreamPump]) -> frozenset[StreamId]:
        """Own these pumps from now on; return what their streams are known by."""
        self._pumps = {pump.stream: pump for pump in pumps}
        return frozenset(stream_id(pump.fd) for pump in self._pumps.values())

    def start(self) -> None:
        """Begin to listen."""
        for pump in self._pumps.values():
            pump.start()

    def descriptors(self) -> dict[str, int]:
        """Return what is open by the names that a keeper gives it; they stay here."""
        return {name: fd for pump in self._pumps.values() for name, fd in pump.descriptors().items()}

    @property
    def is_single(self) -> bool:
        """Tell whether stdout and stderr come as one."""
        return len(self._pumps) == 1

    @property
    def is_open(self) -> bool:
        """Tell whether a stream has not ended."""
        return any(pump.is_open for pump in self._pumps.values())

    @property
    def discarded(self) -> int:
        """Count the bytes that were read and dropped."""
        return self._discarded + sum(pump.discarded for pump in self._pumps.values())

    @property
    def terminal(self) -> int:
        """Return the master of the terminal, -1 where it is closed."""
        pump = self._pumps.get("stdout")
        return -1 if pump is None else pump.fd

    def holders(self, skip: Collection[int] = ()) -> tuple[tuple[int, str], ...]:
        """Return pid and words of those who can write to an open stream, but for those to `skip`."""
        return tuple(holders_of([pump.fd for pump in self._pumps.values() if pump.is_open], skip))

    def flush(self) -> None:
        """Make events of all that is pending."""
        for pump in self._pumps.values():
            pump.flush()

    def flush_others(self, stream: Stream) -> None:
        """Make an event of what the other stream has pending, since this one speaks now."""
        for other, pump in self._pumps.items():
            if other != stream and self._log.pending(other):
                pump.flush()

    def drain(self) -> None:
        """Take what is in the pipes now."""
        for pump in self._pumps.values():
            pump.drain()

    def discard(self) -> None:
        """From now on read and drop, so that no writer dies of a closed pipe or waits for a full one."""
        self._is_discarding = True
        for pump in self._pumps.values():
            if pump.is_open:
                pump.discard()

    def close(self) -> None:
        """Close everything and let go of whom it would tell; idempotent.

        Of thousands of ended processes none then waits, with all that it knows, for the collector of cycles.
        """
        for pump in self._pumps.values():
            pump.close()
        self._discarded = self.discarded
        self._pumps, self._paused = {}, _nobody_waits

    # When writers wait

    def told(self, seq: int) -> None:
        """The starter has received everything up to `seq`; lets a waiting command go on."""
        if self.backlog is not None and self.backlog.told(seq, self._log):
            self.balance()

    def starter_gone(self, gone: bool) -> None:
        """Read on without regard to the starter while nothing is heard of it."""
        if self.backlog is not None and self.backlog.gone != gone:
            self.backlog.gone = gone
            self.balance()

    def room_is_short(self, is_short: bool) -> None:
        """Let the command wait for its starter sooner while the server's disk budget is short."""
        if self.backlog is not None:
            self.backlog.is_short = is_short
            self.balance()

    def balance(self) -> None:
        """Let the writers wait, or go on, as the backlog has it, and the memory while the disk takes nothing.

        What their starter has not received is not dropped for new output.
        """
        if self._log.store.trouble is not None:
            self._log.store.drop_held(None if self.backlog is None else self.backlog.keep_after)
        if self.backlog is None or self._is_discarding:
            return
        is_full = self._log.store.is_full and not self.backlog.gone
        pause = is_full or self.backlog.must_pause(self._log)
        changed = [pump for pump in self._pumps.values() if pump.is_paused != pause]
        for pump in changed:
            if pause:
                pump.pause()
            else:
                pump.resume()
        if pause and changed:
            self._paused()


def _nobody_waits() -> None:
    """Tell nobody of writers that wait: there are none."""
