"""Own what `%load_ext execzmq` and `%unload_ext execzmq` do to a shell."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell

from execzmq.notebook import hubs
from execzmq.notebook.clients import Clients
from execzmq.notebook.completing import Completing
from execzmq.notebook.magics import ExecMagics

_loaded: WeakKeyDictionary[InteractiveShell, tuple[Clients, Completing]] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics, begin to connect to the default server, and let pages find records."""
    clients = Clients()
    completing = Completing(clients)
    shell.register_magics(ExecMagics(shell, clients))
    shell.Completer.custom_matchers.append(completing.match)
    _loaded[shell] = clients, completing
    clients.warm()
    if getattr(shell, "kernel", None) is not None:
        hubs.open_hub(clients.get)


def unload(shell: InteractiveShell) -> None:
    """Take the magics from a shell, and close its clients; what runs, runs on."""
    hubs.close_hub()
    clients, completing = _loaded.pop(shell)
    for kind in ("line", "cell"):
        del shell.magics_manager.magics[kind]["execz"]
    shell.Completer.custom_matchers.remove(completing.match)
    clients.close()
