"""A server of one name through several lives: killed, started again, replaced."""

import contextlib
import threading
from collections.abc import Iterator

from tests.servers import ServerProcess


class Lives:
    """Servers of one name, one after the other; `now` is the one that lives."""

    def __init__(self, name: str) -> None:
        self.now = ServerProcess(name, ())
        self._is_over = False
        self._changing = threading.Lock()

    def die(self) -> None:
        """Kill the server, as a crash would."""
        self.now.kill()

    def begin(self, *options: str) -> ServerProcess:
        """Start the next one, and return it when it is ready.

        Raises:
            RuntimeError: `close` came first, perhaps in another thread.
        """
        with self._changing:
            if self._is_over:
                raise RuntimeError("no server is begun any more")
            before, self.now = self.now, ServerProcess(self.now.name, options)
        before.wait()
        return self.now

    def die_and_begin(self) -> ServerProcess:
        """Kill the server and start the next."""
        self.die()
        return self.begin()

    def replace(self) -> ServerProcess:
        """Start one that takes over from the living one."""
        return self.begin("--replace")

    def close(self) -> None:
        """End the last one, also where another thread is just beginning it, and begin none any more."""
        with self._changing:
            self._is_over = True
        self.now.close()


@contextlib.contextmanager
def lives(name: str = "t") -> Iterator[Lives]:
    """Have a server meanwhile; the end of the last one ends its processes."""
    found = Lives(name)
    try:
        yield found
    finally:
        found.close()
