"""The limit on descriptors: raised for server and keeper, as it was for their commands.

Owns RLIMIT_NOFILE of this process. It must not know what is started.
"""

from __future__ import annotations

import resource


class DescriptorLimit:
    """Raise this process's soft limit to the hard one; a child inherits the limit that is in force.

    Args:
        soft: the limit that commands get; `None` = that of this process.

    Attributes:
        inherited: the soft and the hard limit before, which commands get.
    """

    def __init__(self, soft: int | None = None) -> None:
        own, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.inherited = (own if soft is None else soft, hard)
        self._raised = (hard, hard)
        self.raise_again()

    def lower(self) -> None:
        """Put the inherited limit in force: nothing can be opened until it is raised again."""
        if self._raised != self.inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.inherited)

    def raise_again(self) -> None:
        """Put the raised limit in force."""
        if self._raised != self.inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
