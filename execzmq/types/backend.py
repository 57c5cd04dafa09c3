"""Own the inner seam: how a process starts (`ExecBackend`) and what one does with it (`ExecProcess`).

`LocalBackend` and `RemoteBackend` keep both protocols and pass one conformance suite. Cancelling any of these
calls cancels the waiting, never the command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from execzmq.types.events import Event
from execzmq.types.params import ExecParams
from execzmq.types.results import (
    ExitResult,
    ProcessInfo,
    ProfileInfo,
    ReadResponse,
    Screen,
    ServerInfo,
    TerminateReport,
)
from execzmq.types.sharing import ShareInfo, ShareTerms


class ExecProcess(Protocol):
    """One process that a backend has started or found."""

    @property
    def process_id(self) -> str:
        """Name the process."""

    @property
    def is_repeat(self) -> bool:
        """Tell whether the start that gave this handle was one again, so that nothing was started by it."""

    @property
    def instance(self) -> int:
        """Name the life of that process_id that this handle speaks of."""

    def subscribe_events(self, after_seq: int = 0) -> AsyncIterator[Event]:
        """Yield every event after `after_seq` once and in order; end after `Closed` or `Failed`.

        What is gone from the log is told by a `Gap`. Closing the iterator leaves nothing behind.

        Raises:
            ProcessNotFound: it was forgotten. InstanceChanged: another life has taken its id.
            ServerLost: no server has answered for the stated time.
        """

    async def read(self, after_seq: int = 0, max_bytes: int | None = None, wait: float = 0.0) -> ReadResponse:
        """Return one page of the log; if nothing is there, wait up to `wait` seconds (at most 30) for it.

        `max_bytes` bounds the output bytes of the page; `None` is 4 MiB, the most.
        """

    async def write(self, data: bytes, end: bool = False) -> int:
        """Append `data` to the process's stdin and return the bytes accepted, which is all of them.

        Waits while 16 MiB are unread. `end` closes stdin afterwards (a terminal gets its end-of-file
        character).

        Raises:
            StdinClosed: there is no stdin or its end was written. Conflict: another session has the keyboard.
        """

    async def signal(self, signal: str | int) -> None:
        """Send a signal (`"INT"`, `"SIGINT"` or a number) to the command's process group.

        INT to a terminal process goes to its foreground group.

        Raises:
            ProcessNotRunning: it has ended. InvalidRequest: no such signal.
        """

    async def resize(self, rows: int, cols: int) -> None:
        """Set the terminal's size in character cells, each 1 to 65,535.

        Raises:
            NotATerminal, ProcessNotRunning, InvalidRequest. Conflict: another session has the keyboard.
        """

    async def screen(self) -> Screen:
        """Return what the terminal shows now, and the seq after which its output goes on.

        Raises:
            NotATerminal. ServerError: the log cannot be read.
        """

    async def terminate(self, grace: float = 5.0) -> TerminateReport:
        """End the whole tree: TERM, up to `grace` seconds, KILL; return what became of it."""

    async def claim_keyboard(self, take_over: bool = False) -> None:
        """Make this session the only one that may write and resize the terminal.

        Raises:
            Conflict: another session holds it and `take_over` is false. NotATerminal.
        """

    async def release_keyboard(self) -> None:
        """Give the keyboard back; no error if this session does not hold it."""

    async def wait(self, until: Literal["exited", "closed"], seconds: float, /) -> ProcessInfo:
        """Wait at most `seconds` (at most 30) and return the description as it is then."""

    async def ended(self, until: Literal["exited", "closed"], seconds: float, /) -> ExitResult | None:
        """Wait at most `seconds` (at most 30) and return how it has ended, `None` where it has not."""

    async def info(self, usage: bool = False) -> ProcessInfo:
        """Describe the process; with `usage`, measure what its whole tree uses at the moment."""

    async def forget(self) -> None:
        """Remove the ended process and its log.

        Raises:
            InvalidState: it has not ended.
        """


class ExecBackend(Protocol):
    """A place where commands run."""

    @property
    def is_local(self) -> bool:
        """Tell whether the caller's own cwd and env mean the same there."""

    @property
    def is_up(self) -> bool:
        """Tell whether it can be reached at the moment, as far as has been noticed."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Have `changed` called, the last one given, when `is_up` is noticed to have changed."""

    def new_process_id(self) -> str:
        """Return an id that no process has and no other client makes, to start a command under."""

    async def start(self, params: ExecParams) -> ExecProcess:
        """Start a command; cancelled, it may have been started all the same.

        Raises:
            SpawnFailed and its subclasses: it could not be started, by name.
            Conflict: the process_id or name is taken. InvalidRequest. SandboxUnavailable.
            PermissionRefused: more than the server's profile allows.
        """

    async def explain(self, params: ExecParams) -> dict[str, Any]:
        """Check a start and return what it would become, without starting anything.

        Keys: `argv` (what would be executed, as a list of bytes), `arguments` (what of it is passed by a
        descriptor, a list of bytes; `None` without a sandbox), `cwd` (bytes), `env` (names alone, a list of
        bytes), `sandbox` (what would be applied; `None` = nothing).

        Raises:
            Conflict, InvalidRequest, PermissionRefused, SandboxUnavailable: as `start` would.
        """

    async def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles, the built-in ones first.

        Raises:
            InvalidRequest: the file of profiles is wrong.
        """

    async def attach(self, id_or_name: str) -> ExecProcess:
        """Find a process: by id first, then by living name, then the newest finished of that name.

        Raises:
            ProcessNotFound: there is none.
        """

    async def list_processes(self, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process that is not forgotten, oldest first; with `usage`, measure them, too."""

    async def server_info(self) -> ServerInfo:
        """Describe the backend."""

    async def share(self, terms: ShareTerms, output: Path) -> ShareInfo:
        """Let somebody in over the network, and write the connection file to be handed out.

        Raises:
            InvalidRequest: the terms. ProcessNotFound: one of the processes is not there.
            Conflict: there is a file of that name. ConnectionFailed: it cannot be written, or the server
                cannot listen.
            InvalidState: there is no server, or it listens without CURVE. PermissionRefused: no owner asks.
        """

    async def shares(self) -> list[ShareInfo]:
        """Describe the shares in force, the oldest first."""

    async def revoke(self, share_id: str) -> None:
        """Take a share back: its holder is refused from now on, and cut off within a second.

        Raises:
            ShareNotFound: there is none of that id.
        """

    async def shutdown(self) -> None:
        """End every process by the ladder (TERM, grace, KILL) and then the backend itself."""

    async def aclose(self) -> None:
        """Release all that this object holds; idempotent. A local backend ends its processes."""
