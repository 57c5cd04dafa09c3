"""A disk that is full from the moment on that a test says so."""

import errno
import os
from typing import Any

import pytest

_WRITING = ("pwrite", "splice", "mkdir")


def fill_disk(
    monkeypatch: pytest.MonkeyPatch, *, spare: tuple[str, ...] = (), number: int = errno.ENOSPC
) -> None:
    """Refuse whatever would take room on disk, in this process, until `monkeypatch` is undone.

    Args:
        spare: files whose names begin so can be written all the same.
        number: the error.
    """

    def refuse(name: str) -> None:
        call = getattr(os, name)

        def refused(target: Any, *arguments: Any, **options: Any) -> Any:
            if spare and name == "pwrite":
                path = os.readlink(f"/proc/self/fd/{target}")
                if os.path.basename(path).startswith(spare):
                    return call(target, *arguments, **options)
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, name, refused)

    for name in _WRITING:
        refuse(name)
