"""Own how a page of a log is read when others may have taken away parts of it; knows nothing of who asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from execzmq.errors import ServerError
from execzmq.process import payloads
from execzmq.process.lifecycle import Life
from execzmq.process.paging import LogPage
from execzmq.process.retold import Known, retell
from execzmq.settings import PAGE

if TYPE_CHECKING:
    from execzmq.process.managed import ManagedProcess


def page_of(
    process: ManagedProcess, after_seq: int, max_bytes: int = PAGE, *, by_file: bool = False
) -> LogPage:
    """Return a page of the log; its start and its end are told also where they are gone from it.

    Raises:
        ServerError: the files cannot be read.
    """
    try:
        page = _read(process, after_seq, max_bytes, by_file)
    except OSError as error:
        message = f"the log of {process.process_id} cannot be read now, try again: {error}"
        raise ServerError(message, process_id=process.process_id, errno=error.errno) from error
    return retell(page, lambda: _known_of(process), time.time)


def _read(process: ManagedProcess, after_seq: int, max_bytes: int, by_file: bool) -> LogPage:
    try:
        return process.log.page(after_seq, max_bytes, by_file=by_file)
    except OSError:
        if not process.log.store.note_losses():
            raise
    return process.log.page(after_seq, max_bytes, by_file=by_file)


def _known_of(process: ManagedProcess) -> Iterator[Known]:
    """Yield what is known of the log without looking there."""
    ending, last_seq = process.ending, process.log.last_seq
    if process.pid is not None and last_seq:
        yield Known(1, "started", ending.started_at, {"pid": process.pid})
    if process.exited_seq:
        yield Known(process.exited_seq, "exited", ending.ended_at, process.told)
    if process.life is Life.CLOSED and process.told:
        yield Known(last_seq, "closed", ending.ended_at, process.told)
    elif process.life is Life.FAILED:
        yield Known(last_seq, "failed", ending.ended_at, payloads.plain(process.failure or {}))
