"""Own what becomes of a backend whose folder was emptied under it: the next server must find what runs.

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
        os.makedirs(backend.log_folder(process.spec), 0o700, exist_ok=True)
    with contextlib.suppress(OSError):  # then at the next time that something ends
        backend.journal.is_behind = True
        backend.journal.compact(record for process in backend.table for record in journal_records(process))
