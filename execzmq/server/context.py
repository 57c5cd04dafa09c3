"""Own what handlers are given: the backend, the sessions and who the server is; never the server itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from execzmq.backends.doctor import Examiner
from execzmq.backends.local import LocalBackend
from execzmq.backends.local_process import LocalProcess
from execzmq.errors import InstanceChanged
from execzmq.protocol.peers import Sessions
from execzmq.server.pages import PagesInFlight
from execzmq.server.sharing import Sharing


@dataclass(slots=True, frozen=True)
class Identity:
    """Who this server is; `host` tells the machine and the mount namespace."""

    name: str
    epoch: str
    host: str
    pid: int
    started_at: float


@dataclass(slots=True)
class Context:
    """What a handler may use.

    Args:
        request_shutdown: begins the clean end of the server.
        statistics: counters of all parts, by name.
        clock: monotonic seconds.
        sharing: the shares.
    """

    identity: Identity
    backend: LocalBackend
    sessions: Sessions
    request_shutdown: Callable[[], None]
    statistics: Callable[[], dict[str, int]]
    clock: Callable[[], float]
    sharing: Sharing
    pages: PagesInFlight = field(default_factory=PagesInFlight)
    examiner: Examiner = field(init=False)

    def __post_init__(self) -> None:
        """Make what belongs to the backend's folder."""
        self.examiner = Examiner(self.backend.folder, self.backend.confiner.findings)

    def process(self, process_id: str, session: str, instance: int | None = None) -> LocalProcess:
        """Return a session's handle of a process.

        Raises:
            ProcessNotFound: there is none. InstanceChanged: it is not that instance any more.
        """
        process = self.backend.table.require(process_id)
        if instance is not None and instance != process.instance:
            message = f"process {process_id} is another instance now; read from its beginning"
            raise InstanceChanged(message, process_id=process_id, instance=process.instance)
        return LocalProcess(self.backend, process, session)
