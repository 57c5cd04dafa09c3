"""Own the magics `%execz` and `%%execz`."""

from __future__ import annotations

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class


@magics_class
class ExecMagics(Magics):
    """The magics of execzmq."""

    @line_cell_magic
    def execz(self, line: str, cell: str | None = None) -> None:
        """Run a command on a server of your own."""
        raise UsageError("%execz is not written yet")
