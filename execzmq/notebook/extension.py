"""Own what `%load_ext execzmq` and `%unload_ext execzmq` do to a shell."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell

from execzmq.notebook.clients import Clients
from execzmq.notebook.completing import Completing
from execzmq.notebook.magics import ExecMagics

_loaded: WeakKeyDictionary[InteractiveShell, tuple[Clients, Completing]] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics, and begin to connect to the default server."""
    clients = Clients()
    completing = Completing(clients)
    shell.register_magics(ExecMagics(shell, clients))
    shell.Completer.custom_matchers.append(completing.match)
    _loaded[shell] = clients, completing
    clients.warm()


def unload(shell: InteractiveShell) -> None:
    """Take the magics from a shell, and close its clients; what runs, runs on."""
    clients, completing = _loaded.pop(shell)
    for kind in ("line", "cell"):
        del shell.magics_manager.magics[kind]["execz"]
    shell.Completer.custom_matchers.remove(completing.match)
    clients.close()
