"""Own which files of projects this user trusts, each in the exact content that it had then.

Knows nothing of what stands in them. What cannot be read, or may have been written by others, trusts nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from execzmq import connection
from execzmq.settings import DEFAULT_NAME

_MOST_BYTES = 1024 * 1024


def records_path() -> Path:
    """Return where the records are: beside the servers' state, out of every sandbox's sight."""
    return connection.state_folder(DEFAULT_NAME).parent / "trusted-environments.json"


def is_trusted(path: str, content: bytes) -> bool:
    """Tell whether the file at `path` was trusted when it had exactly this content."""
    return _records().get(path) == _digest(content)


def trust(path: str, content: bytes) -> None:
    """Trust the file at `path` with this content, and with no other one any more.

    Raises:
        OSError, ConnectionFailed: it cannot be recorded, or not out of others' sight.
    """
    _write({**_records(), path: _digest(content)})


def untrust(path: str) -> bool:
    """Trust the file at `path` no more; return whether it was.

    Raises:
        OSError, ConnectionFailed: as for `trust`.
    """
    records = _records()
    if records.pop(path, None) is None:
        return False
    _write(records)
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(records: Mapping[str, str]) -> None:
    connection.private_folder(records_path().parent)
    connection.write_private(records_path(), json.dumps(records, indent=2).encode() + b"\n")


def _records() -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        fd = os.open(records_path(), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if stat.S_ISREG(status.st_mode) and is_own:
                loaded = json.loads(file.read(_MOST_BYTES))
                return loaded if isinstance(loaded, dict) else {}
    return {}
