"""Own the magics `%execz` and `%%execz`: a line is read and checked here, and carried out elsewhere."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)

from execzmq.errors import InvalidRequest
from execzmq.notebook.arguments import BadLine, check, check_values, read_line, usage
from execzmq.notebook.asking import expanded
from execzmq.notebook.clients import Clients
from execzmq.notebook.expanding import ExpansionError
from execzmq.notebook.results import CommandResult
from execzmq.notebook.running import CellRun


@magics_class
class ExecMagics(Magics):
    """The magics of execzmq.

    Args:
        clients: owned by the extension.
    """

    def __init__(self, shell: InteractiveShell, clients: Clients) -> None:
        super().__init__(shell)
        self._shell = shell
        self._clients = clients

    @output_can_be_silenced
    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def execz(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> CommandResult | None:
        try:
            asked = read_line(line)
            if asked.help:
                print(usage())  # noqa: T201  # what was asked for
                return None
            check(asked, is_cell=cell is not None)
            names = {**self._shell.user_ns, **(local_ns or {})}
            asked = expanded(asked, names)
            check_values(asked)
            return CellRun(self._shell, self._clients, asked, cell, names).carry_out()
        except (BadLine, ExpansionError, InvalidRequest) as error:
            raise UsageError(str(error)) from None

    execz.__doc__ = usage()
