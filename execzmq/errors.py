"""Own every exception of execzmq and its form on the wire; know nothing of sockets or processes.

Grouped by what the caller can do::

    ExecZMQError
    ├─ ConnectionFailed              find or start a server, then try again
    │   └─ ServerLost                the outcome of the call under way is not known
    ├─ RequestTimeout                the server lives but has not answered in time
    ├─ ProtocolError                 one side broke the protocol
    │   ├─ LocalProtocolError        it was this side
    │   ├─ RemoteProtocolError       it was the other one
    │   ├─ AuthenticationFailed      the key or signature is wrong
    │   └─ VersionMismatch           upgrade one side
    ├─ RequestRejected               the server answered "no"
    │   ├─ InvalidRequest            change the arguments
    │   ├─ NotFound                  ProcessNotFound, EnvironmentNotFound, ShareNotFound
    │   ├─ InvalidState              ProcessNotRunning, StdinClosed, NotATerminal
    │   ├─ Conflict, WrongEpoch, InstanceChanged
    │   ├─ LimitExceeded             ask for less
    │   ├─ PermissionRefused         the peer's role, or the server's profile
    │   ├─ SpawnFailed               CommandNotFound, NotExecutable, BadFormat, ...
    │   ├─ SandboxUnavailable        the sandbox cannot be enforced here
    │   └─ ServerError               a fault of the server; quote `incident`
    ├─ WaitTimeout                   the process has not ended yet
    └─ StatusUnknown                 the process ended, but nobody knows how
"""

from __future__ import annotations

from typing import Any, ClassVar


class ExecZMQError(Exception):
    """Root of all errors of execzmq.

    Args:
        message: one line that says what happened and what to do next.
        details: data of the error; keys become attributes of the exception.
    """

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if OSError in type(self).__mro__:
            names = {"errno": details.get("errno"), "filename": details.get("cwd") or details.get("program")}
            for name, value in names.items():
                setattr(self, name, details.get(name, value))

    def __str__(self) -> str:
        return self.message

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.details))


def _rebuild(cls: type[ExecZMQError], message: str, details: dict[str, Any]) -> ExecZMQError:
    return cls(message, **details)


class ConnectionFailed(ExecZMQError, ConnectionError):
    """No server could be reached: none runs, it refused, or its connection file is bad."""


class ServerLost(ConnectionFailed):
    """The server went away while a call was under way; its outcome is not known."""


class RequestTimeout(ExecZMQError, TimeoutError):
    """The server did not answer within the stated time."""


class ProtocolError(ExecZMQError):
    """One of the two sides broke the protocol."""


class LocalProtocolError(ProtocolError):
    """This side tried to build a message that the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that the protocol forbids."""


class AuthenticationFailed(ProtocolError):
    """The signature or key of a message or connection was not accepted."""


class VersionMismatch(ProtocolError):
    """The two sides speak protocol versions that cannot be used together."""


class RequestRejected(ExecZMQError):
    """The server understood the request and answered "no"."""

    def _render_traceback_(self) -> list[str]:
        """Show one line in IPython instead of the call stack of the client."""
        return [f"{type(self).__name__}: {self.message}"]


class InvalidRequest(RequestRejected, ValueError):
    """An argument of the request is missing, of a wrong type or out of range."""


class UnknownMethod(InvalidRequest):
    """The server has no such method on that socket."""


class NotFound(RequestRejected, LookupError):
    """What the request names does not exist."""


class ProcessNotFound(NotFound):
    """No process has that id or name, or it has been forgotten."""


class EnvironmentNotFound(NotFound):
    """No environment and no server has that name."""


class ShareNotFound(NotFound):
    """No share has that id: it was revoked, has ended, or never was."""


class InvalidState(RequestRejected):
    """What was asked for is not possible in the state that the process is in."""


class ProcessNotRunning(InvalidState, ProcessLookupError):
    """The process has already ended."""


class StdinClosed(InvalidState, BrokenPipeError):
    """The process has no stdin, or its end has been written already."""


class NotATerminal(InvalidState):
    """The process was started without a terminal."""


class Conflict(RequestRejected):
    """Another request or another client stands in the way."""


class WrongEpoch(RequestRejected):
    """The request was meant for an earlier life of the server."""


class InstanceChanged(RequestRejected):
    """The cursor belongs to another instance of the process; `instance` names the current one."""


class LimitExceeded(RequestRejected):
    """A stated bound would be passed; `limit` and `value` tell it."""


class PermissionRefused(RequestRejected, PermissionError):
    """The role of this peer, or the profile of the server, does not allow what was asked for."""


class SpawnFailed(RequestRejected, OSError):
    """The command could not be started; `reason` and `errno` say why."""


class CommandNotFound(SpawnFailed, FileNotFoundError):
    """The program, or the interpreter that its first line names, does not exist."""


class WorkingDirectoryMissing(SpawnFailed, FileNotFoundError):
    """The working directory does not exist or is none."""


class NotExecutable(SpawnFailed, PermissionError):
    """The program exists but may not be executed."""


class BadFormat(SpawnFailed):
    """The program is neither a binary of this machine nor a script with an interpreter."""


class ArgumentTooLong(SpawnFailed, ValueError):
    """One argument, or all together, pass the limit of the operating system."""


class SandboxUnavailable(RequestRejected):
    """The sandbox that was asked for cannot be enforced on the server's machine."""


class ServerError(RequestRejected):
    """The server failed in handling the request; its log names the same `incident`."""


class WaitTimeout(ExecZMQError, TimeoutError):
    """The process did not end within the time that the caller was willing to wait."""


class StatusUnknown(ExecZMQError):
    """The process is over, but its exit status is not known (see `cause`)."""


class ClientClosed(ExecZMQError, RuntimeError):
    """The client object was used after `close` or in a forked child."""


def _descendants(cls: type[ExecZMQError]) -> list[type[ExecZMQError]]:
    found = [cls]
    for child in cls.__subclasses__():
        found += _descendants(child)
    return found


class _Registry:
    """Class by `ename`, filled once from the tree above so that none can be forgotten."""

    by_name: ClassVar[dict[str, type[ExecZMQError]]] = {}


_Registry.by_name = {cls.__name__: cls for cls in _descendants(ExecZMQError)}


def to_wire(error: ExecZMQError) -> dict[str, Any]:
    """Return the fields `ename`, `evalue` and `details` of an error reply."""
    return {"ename": type(error).__name__, "evalue": error.message, "details": dict(error.details)}


def from_wire(content: dict[str, Any]) -> ExecZMQError:
    """Rebuild the exception that an error reply names; an unknown name becomes `ServerError`."""
    details = {str(k): v for k, v in (content.get("details") or {}).items() if k != "message"}
    message = str(content.get("evalue", ""))
    cls = _Registry.by_name.get(str(content.get("ename")))
    if cls is None:
        return ServerError(message, **{**details, "ename": content.get("ename")})
    return cls(message, **details)
