"""Own the list of public names and where each lives; load nothing until a name is asked for (PEP 562).

Whoever imports a part of the package (the keeper, a command of the CLI) pays for that part alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from execzmq.api import Popen, aconnect, attach, connect, local, run, start
    from execzmq.client.aio import AsyncClient, AsyncProcess
    from execzmq.client.arguments import DEVNULL, INHERIT, PIPE, STDOUT
    from execzmq.client.run import CalledProcessError, CompletedProcess
    from execzmq.client.sync import Client, Process
    from execzmq.errors import (
        ArgumentTooLong,
        AuthenticationFailed,
        BadFormat,
        ClientClosed,
        CommandNotFound,
        Conflict,
        ConnectionFailed,
        EnvironmentNotFound,
        ExecZMQError,
        InstanceChanged,
        InvalidRequest,
        InvalidState,
        LimitExceeded,
        LocalProtocolError,
        NotATerminal,
        NotExecutable,
        NotFound,
        PermissionRefused,
        ProcessNotFound,
        ProcessNotRunning,
        ProtocolError,
        RemoteProtocolError,
        RequestRejected,
        RequestTimeout,
        SandboxUnavailable,
        ServerError,
        ServerLost,
        ShareNotFound,
        SpawnFailed,
        StatusUnknown,
        StdinClosed,
        UnknownMethod,
        VersionMismatch,
        WaitTimeout,
        WorkingDirectoryMissing,
        WrongEpoch,
    )
    from execzmq.settings import VERSION as __version__
    from execzmq.types.backend import ExecBackend, ExecProcess
    from execzmq.types.events import Closed, Event, Exited, Failed, Gap, Notice, Output, Started
    from execzmq.types.params import EnvPolicy, ExecParams, Limits, SandboxIntent, TtySize
    from execzmq.types.results import (
        ExitResult,
        ProcessInfo,
        ProcessRef,
        ProcessUsage,
        ProfileInfo,
        ReadResponse,
        Screen,
        ServerInfo,
        TerminateReport,
    )
    from execzmq.types.sharing import ShareInfo

__all__ = [
    "DEVNULL",
    "INHERIT",
    "PIPE",
    "STDOUT",
    "ArgumentTooLong",
    "AsyncClient",
    "AsyncProcess",
    "AuthenticationFailed",
    "BadFormat",
    "CalledProcessError",
    "Client",
    "ClientClosed",
    "Closed",
    "CommandNotFound",
    "CompletedProcess",
    "Conflict",
    "ConnectionFailed",
    "EnvPolicy",
    "EnvironmentNotFound",
    "Event",
    "ExecBackend",
    "ExecParams",
    "ExecProcess",
    "ExecZMQError",
    "ExitResult",
    "Exited",
    "Failed",
    "Gap",
    "InstanceChanged",
    "InvalidRequest",
    "InvalidState",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "NotATerminal",
    "NotExecutable",
    "NotFound",
    "Notice",
    "Output",
    "PermissionRefused",
    "Popen",
    "Process",
    "ProcessInfo",
    "ProcessNotFound",
    "ProcessNotRunning",
    "ProcessRef",
    "ProcessUsage",
    "ProfileInfo",
    "ProtocolError",
    "ReadResponse",
    "RemoteProtocolError",
    "RequestRejected",
    "RequestTimeout",
    "SandboxIntent",
    "SandboxUnavailable",
    "Screen",
    "ServerError",
    "ServerInfo",
    "ServerLost",
    "ShareInfo",
    "ShareNotFound",
    "SpawnFailed",
    "Started",
    "StatusUnknown",
    "StdinClosed",
    "TerminateReport",
    "TtySize",
    "UnknownMethod",
    "VersionMismatch",
    "WaitTimeout",
    "WorkingDirectoryMissing",
    "WrongEpoch",
    "__version__",
    "aconnect",
    "attach",
    "connect",
    "local",
    "run",
    "start",
]

_ELSEWHERE = {
    "execzmq.api": ("Popen", "aconnect", "attach", "connect", "local", "run", "start"),
    "execzmq.client.aio": ("AsyncClient", "AsyncProcess"),
    "execzmq.client.arguments": ("DEVNULL", "INHERIT", "PIPE", "STDOUT"),
    "execzmq.client.run": ("CalledProcessError", "CompletedProcess"),
    "execzmq.client.sync": ("Client", "Process"),
    "execzmq.types.backend": ("ExecBackend", "ExecProcess"),
    "execzmq.types.events": ("Closed", "Event", "Exited", "Failed", "Gap", "Notice", "Output", "Started"),
    "execzmq.types.params": ("EnvPolicy", "ExecParams", "Limits", "SandboxIntent", "TtySize"),
    "execzmq.types.results": (
        "ExitResult",
        "ProcessInfo",
        "ProcessRef",
        "ProcessUsage",
        "ProfileInfo",
        "ReadResponse",
        "Screen",
        "ServerInfo",
        "TerminateReport",
    ),
    "execzmq.types.sharing": ("ShareInfo",),
}
_MODULE_OF = {name: module for module, names in _ELSEWHERE.items() for name in names}


def load_ipython_extension(shell: Any) -> None:
    """Give IPython `%execz` and `%%execz`: what `%load_ext execzmq` calls."""
    import_module("execzmq.notebook.extension").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take them away again: what `%unload_ext execzmq` calls."""
    import_module("execzmq.notebook.extension").unload(shell)


if not TYPE_CHECKING:  # type checkers would take any misspelled name for a public one

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("execzmq.settings").VERSION
        if name not in __all__:
            raise AttributeError(f"module 'execzmq' has no attribute {name!r}")
        # What has no other home is an exception.
        value = getattr(import_module(_MODULE_OF.get(name, "execzmq.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
