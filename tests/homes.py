"""Own the folders of a user whom tests make up: none of them ever meets the user's own server."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = {
    "HOME": "h",
    "XDG_STATE_HOME": "s",
    "XDG_RUNTIME_DIR": "r",
    "XDG_CONFIG_HOME": "c",
    "XDG_DATA_HOME": "x",
    "XDG_CACHE_HOME": "k",
    "JUPYTER_RUNTIME_DIR": "j",
    "JUPYTER_DATA_DIR": "d",
    "JUPYTER_CONFIG_DIR": "f",
    "IPYTHONDIR": "i",
}


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make a private folder with a short name: the path of a Unix socket has about 100 bytes."""
    root = Path(tempfile.mkdtemp(prefix="xz-", dir="/tmp"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def move_into(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point every folder of the user's at an empty one below `root`.

    `python` on PATH is the interpreter of the tests.
    """
    for variable, name in FOLDERS.items():
        folder = root / name
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])


@contextlib.contextmanager
def another_home() -> Iterator[Path]:
    """Be a user of another home meanwhile: for a server that outlives a test, and so the home of that."""
    with private_folder() as root, pytest.MonkeyPatch.context() as monkeypatch:
        move_into(root, monkeypatch)
        yield root
