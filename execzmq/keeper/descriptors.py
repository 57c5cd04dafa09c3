"""The limit on descriptors: raised for the keeper, as it was for its commands.

Owns RLIMIT_NOFILE of this process and two reserved descriptors. It must not know what is started.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator


class DescriptorLimit:
    """Raise this process's soft limit to the hard one, and lower it again around each start.

    A child inherits the limit of the moment at which it is made. subprocess opens one pipe of its own
    there, whose numbers must lie below the lowered limit however many descriptors are open: two low ones
    are kept free for it.
    """

    def __init__(self) -> None:
        self.inherited = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = (self.inherited[1], self.inherited[1])
        self._reserved: list[int] = []
        if self._raised != self.inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
            self._reserve()

    @contextlib.contextmanager
    def lowered(self) -> Iterator[None]:
        """Have the inherited limit in force, with two descriptors free below it."""
        if self._raised == self.inherited:
            yield
            return
        self._free()
        resource.setrlimit(resource.RLIMIT_NOFILE, self.inherited)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
            self._reserve()

    def close(self) -> None:
        """Give the reserved descriptors back and restore the inherited limit."""
        self._free()
        resource.setrlimit(resource.RLIMIT_NOFILE, self.inherited)

    def _reserve(self) -> None:
        # Without them the next start may be refused; this one has succeeded and must not fail here.
        with contextlib.suppress(OSError):
            while len(self._reserved) < 2:
                self._reserved.append(os.open("/dev/null", os.O_RDONLY))

    def _free(self) -> None:
        while self._reserved:
            os.close(self._reserved.pop())
