"""Own the life of a server that others hold: it ends, and leaves nothing, when the last of them is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from execzmq.errors import RequestTimeout
from execzmq.holders import Watch

_LOCK_SECONDS = 5.0


class WhileHeld:
    """Ends the server of this process, as SIGTERM does, when nobody holds the pipe any more.

    Args:
        path: of the pipe; `None` = the server is nobody's, and stays.
    """

    def __init__(self, path: Path | None) -> None:
        self._watch = None if path is None else Watch(path)

    def begin(self) -> None:
        """Look from now on; the server is ready, and its handlers of signals are in place."""
        if self._watch is not None:
            asyncio.get_running_loop().add_reader(self._watch, self._look)
            self._look()  # the pipe tells nothing of those who had gone before it was watched

    @contextlib.contextmanager
    def removing(self, name: str) -> Iterator[None]:
        """Watch no more at the end, and remove what the server `name` has left, unless it is held again."""
        try:
            yield
        finally:
            self._close(name)

    def _close(self, name: str) -> None:
        watch, self._watch = self._watch, None
        if watch is None:
            return
        with contextlib.closing(watch):
            asyncio.get_running_loop().remove_reader(watch)
            if not watch.is_held():
                _remove_state(name, watch)

    def _look(self) -> None:
        if self._watch is not None and not self._watch.is_held():
            asyncio.get_running_loop().remove_reader(self._watch)
            os.kill(os.getpid(), signal.SIGTERM)


def _remove_state(name: str, watch: Watch) -> None:
    from execzmq.client import launch
    from execzmq.connection import socket_folder, state_folder

    with contextlib.suppress(RequestTimeout), launch.start_lock(name, time.monotonic() + _LOCK_SECONDS):
        if not watch.is_held() and launch.running(name) is None:
            for folder in (state_folder(name), socket_folder(name)):
                shutil.rmtree(folder, ignore_errors=True)
            launch.lock_path(name).unlink(missing_ok=True)
