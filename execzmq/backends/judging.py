"""Own the question what part its sandbox had in the end of a command: gathers the facts and has them judged.

Asks the host aside of the loop: what a command prints may name paths that nobody can look at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial

from execzmq.aside import aside
from execzmq.backends.internet import Companion
from execzmq.process.confinement import Verdict
from execzmq.process.lastwords import last_output
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox.cgroups import Cgroup
from execzmq.sandbox.ending import Ending
from execzmq.sandbox.limits import LimitFacts, facts
from execzmq.sandbox.model import Permissions
from execzmq.sandbox.outside import Host
from execzmq.sandbox.proxy import Proxy
from execzmq.sandbox.sight import Sight
from execzmq.sandbox.verdict import judge

_SECONDS = 1.0
"""Time that a look at the host may take: the end of a command waits for it."""


@dataclass(slots=True, eq=False)
class Circumstances:
    """What surrounds one confined command.

    Args:
        sight: what it sees.
        enforced: names of the limits that hold.
        cgroup: of its sandbox, `None` where there is none.
        refused_hosts: what the proxy has refused, each once.
        proxy: through which it reaches the network, `None` where there is none.
        companion: which is its network, likewise.
    """

    permissions: Permissions
    sight: Sight
    enforced: frozenset[str] = frozenset()
    cgroup: Cgroup | None = None
    refused_hosts: list[str] = field(default_factory=list)
    proxy: Proxy | None = None
    companion: Companion | None = None

    def close(self) -> None:
        """Serve the sandbox no more; it may go on. Idempotent."""
        if self.proxy is not None:
            self.proxy.close()
        if self.companion is not None:
            self.companion.leave()


async def verdict_of(process: ManagedProcess, around: Circumstances, status: int | None) -> Verdict:
    """Return why a command has ended as it did.

    Args:
        status: of the command as from wait(2); `None` = nobody knows.
    """
    if status is None:
        return Verdict()
    limits = facts(around.cgroup, around.enforced)
    if status == 0 and not limits.oom_kills and not limits.refused_forks:
        return Verdict()
    process.streams.drain()
    ending = _ending_of(process, around, limits, os.waitstatus_to_exitcode(status))
    try:
        found = await aside(partial(judge, ending, Host()), _SECONDS)
    except OSError:  # of time too, or there is no thread: the end is told all the same
        return Verdict()
    confidence = found.confidence if found.cause == "sandbox_denied" else ""
    return Verdict(found.cause, confidence, tuple(map(str, found.evidence)))


def _ending_of(process: ManagedProcess, around: Circumstances, limits: LimitFacts, code: int) -> Ending:
    last = last_output(process.log)
    return Ending(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        argv=process.spec.argv,
        cwd=process.spec.cwd,
        stdout=last.get("stdout", b""),
        stderr=last.get("stderr", b""),
        permissions=around.permissions,
        mounts=around.sight.mounts,
        refused_hosts=tuple(around.refused_hosts),
        oom_kills=limits.oom_kills,
        forks_refused=limits.refused_forks,
        is_mixed=process.streams.is_single,
        was_asked=process.ending.cause is not None or -code in process.ending.signals,
    )
