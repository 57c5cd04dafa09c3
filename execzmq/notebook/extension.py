"""Own what `%load_ext execzmq` and `%unload_ext execzmq` do to a shell."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from execzmq.notebook.magics import ExecMagics


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics."""
    shell.register_magics(ExecMagics(shell))


def unload(shell: InteractiveShell) -> None:
    """Take the magics from a shell."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("execz", None)
