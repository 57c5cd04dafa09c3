"""Programs that watch a process of a server, started, stopped and asked what they saw by a test."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

from tests.end_to_end import watcher
from tests.servers import ServerProcess
from tests.support import deadline, program_env


class Watcher:
    """One program that watches."""

    def __init__(self, server: ServerProcess, process_id: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, watcher.__file__, server.name, process_id],
            env=program_env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        """Wait for its first event."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        """Let it read nothing at all."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it read again."""
        self.process.send_signal(signal.SIGCONT)

    def said(self, seconds: float = 60.0) -> str:
        """Return what it said at its end: bytes, sha256, last seq, bytes lost."""
        output, _ = self.process.communicate(timeout=deadline(seconds).left())
        return output.removeprefix("ready\n").strip()

    def close(self) -> None:
        """Be gone."""
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def watching(server: ServerProcess, process_id: str, count: int) -> Iterator[list[Watcher]]:
    """Let `count` programs watch, all of which have seen the first event."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(Watcher(server, process_id))
            stack.callback(found[-1].close)
        for one in found:
            one.ready()
        yield found
