"""Own what becomes of a backend whose folder or journal is gone: the next server must find what runs.

Knows the journal and the folders of the logs; what the logs had is gone with their files.
"""

from __future__ import annotations

import contextlib
import os

from execzmq.backends.local import LocalBackend
from execzmq.backends.records import journal_records


def fill_again(backend: LocalBackend) -> None:
    """Write the journal anew, and make folders for the logs of what lives.

    Raises:
        OSError: a folder cannot be made.
    """
    for process in backend.table.living():
        os.makedirs(backend.log_folder(process.spec.key), 0o700, exist_ok=True)
    with contextlib.suppress(OSError):  # then at the next time that something ends
        backend.journal.is_behind = True
        _write_journal(backend, replaces_any=False)


def mend_journal(backend: LocalBackend) -> bool:
    """Write the journal anew where it was removed, replaced or cut; return whether it was.

    To be called by whoever has the lock of the folder.

    Raises:
        OSError: the disk refuses.
    """
    if not backend.journal.is_lost:
        return False
    _write_journal(backend, replaces_any=True)
    return True


def _write_journal(backend: LocalBackend, *, replaces_any: bool) -> None:
    records = (record for process in backend.table for record in journal_records(process))
    backend.journal.compact(records, replaces_any=replaces_any)
