"""Own the small disk that a world keeps its state on, where this process may mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from execzmq.settings import GIB

CAN_MOUNT = os.geteuid() == 0
_TRIES = 100
_SIZE = 16 * GIB
"""Bytes that may be in use; a tenth of them is what a server has for logs, and no log is to be cut for it."""


class Disk:
    """A disk that can be full from one moment to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self) -> None:
        """Have no more room than is in use, which may grow before that is so."""
        for _ in range(_TRIES):
            disk = os.statvfs(self._folder)
            if self._resize((disk.f_blocks - disk.f_bfree) * disk.f_frsize):
                return
        raise OSError(f"{self._folder} cannot be made full")

    def empty(self) -> None:
        """Have room again."""
        assert self._resize(_SIZE)

    def _resize(self, size: int) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self._folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(folder: Path) -> Iterator[Disk]:
    """Put a disk there meanwhile."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "none", str(folder)], check=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
