"""Own the file that tells a server's next life what its sandboxes have left on the disk, and which left it.

Nothing depends on its being short: what it says too much is looked at and found gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

_MOST_BYTES = 1 << 20


class Noted(NamedTuple):
    """What one sandbox has left: paths, and those of them that are files."""

    key: str
    paths: frozenset[bytes]
    files: frozenset[bytes]


class PlaceholderJournal:
    """A journal of what was left; made when it is needed.

    Args:
        path: of the file.
    """

    def __init__(self, path: bytes) -> None:
        self._path = path

    def note(self, noted: Noted) -> None:
        """Add what a sandbox will leave. Raises OSError: it cannot be written; with the `filename`."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o600)
        try:
            write_whole(fd, _line(noted), self._path)
        finally:
            os.close(fd)

    def shorten(
        self, held: Mapping[str, frozenset[bytes]], files: Collection[bytes], *, is_over: bool
    ) -> None:
        """Take out what has ended: all at once when it `is_over`, else when the file is large."""
        with contextlib.suppress(OSError):
            if is_over:
                os.truncate(self._path, 0)
            elif os.stat(self._path).st_size > _MOST_BYTES:
                self._write_anew(Noted(key, paths, paths.intersection(files)) for key, paths in held.items())

    def _write_anew(self, all_noted: Iterable[Noted]) -> None:
        temporary = self._path + b".new"
        with open(temporary, "wb") as file:
            file.writelines(map(_line, all_noted))
        os.replace(temporary, self._path)

    def read(self) -> Iterator[Noted]:
        """Yield what was noted, but for lines that were cut off or are none."""
        try:
            with open(self._path, "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            return
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                noted = json.loads(line)
                paths, files = (frozenset(map(os.fsencode, noted[name])) for name in ("paths", "files"))
                yield Noted(str(noted["key"]), paths, files)


def _line(noted: Noted) -> bytes:
    shown = {"key": noted.key, "paths": _shown(noted.paths), "files": _shown(noted.files)}
    # A line that was cut off by a full disk ends here.
    return b"\n" + json.dumps(shown).encode() + b"\n"


def _shown(paths: Iterable[bytes]) -> list[str]:
    return sorted(os.fsdecode(path) for path in paths)


def write_whole(fd: int, data: bytes, path: bytes) -> None:
    """Write all of it to a file. Raises OSError: with the path."""
    try:
        written = os.write(fd, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    if written != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
