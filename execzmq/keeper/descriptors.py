"""The limit on descriptors: raised for the keeper, as it was for its commands.

Owns RLIMIT_NOFILE of this process. It must not know what is started.
"""

from __future__ import annotations

import resource


class DescriptorLimit:
    """Raise this process's soft limit to the hard one; a child inherits the limit that is in force.

    Attributes:
        inherited: the soft and the hard limit before, which commands get.
    """

    def __init__(self) -> None:
        self.inherited = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = (self.inherited[1], self.inherited[1])
        self.raise_again()

    def lower(self) -> None:
        """Put the inherited limit in force: nothing can be opened until it is raised again."""
        if self._raised != self.inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.inherited)

    def raise_again(self) -> None:
        """Put the raised limit in force."""
        if self._raised != self.inherited:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
