"""A disk that is full from the moment on that a test says so."""

import errno
import os
from typing import Any

import pytest

_WRITING = ("pwrite", "splice", "mkdir")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse whatever would take room on disk, in this process, until `monkeypatch` is undone."""
    for name in _WRITING:
        monkeypatch.setattr(os, name, _refuse)


def _refuse(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
