"""Own which limit of a sandbox is kept by what, and set them while its first process waits at the gate.

What the kernel counts for all processes together is a control group's (`cgroups`); the rest are resource
limits, which each process has for itself. Knows nothing of how a command is started or how it ended.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from execzmq.errors import InvalidRequest, SandboxUnavailable
from execzmq.sandbox.cgroup_plan import JOINED_PROCESSES, OWN_PROCESSES, has_any
from execzmq.sandbox.cgroups import Cgroup, Cgroups
from execzmq.types.finding import Finding
from execzmq.types.params import Limits

LimitName = Literal["memory", "cpu", "processes", "file_size", "descriptors"]
Scope = Literal["sandbox", "process"]

NAMES: tuple[LimitName, ...] = get_args(LimitName)

LEAST_DESCRIPTORS = 16
"""What bubblewrap itself opens while it builds a sandbox, and some more."""

_RELEASE = os.uname().release
_CPU_GRACE = 1
"""Seconds of processor time between SIGXCPU and KILL."""
_CONTROLLER: dict[str, str] = {"memory": "memory", "processes": "pids"}
_KINDS: dict[str, int] = {
    "memory": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
    "file_size": resource.RLIMIT_FSIZE,
    "descriptors": resource.RLIMIT_NOFILE,
}


class Rlimit(NamedTuple):
    """A resource limit: one of `resource.RLIMIT_*`, and its two values."""

    kind: int
    soft: int
    hard: int


@dataclass(slots=True, frozen=True)
class LimitPlan:
    """What keeps which limit.

    Args:
        rlimits: to set on the sandbox's first process.
        enforced: the limits that hold, in the order of `Limits`; each for the whole `sandbox` or for every
            `process` by itself.
        missing: those that were asked for and do not hold, or not as `Limits` says: memory for each process
            alone is no bound on what a sandbox uses.
    """

    rlimits: tuple[Rlimit, ...]
    enforced: dict[LimitName, Scope]
    missing: tuple[LimitName, ...]


class LimitFacts(NamedTuple):
    """What the limits tell of an end, for whoever judges it.

    Attributes:
        oom_kills: processes killed because the sandbox's memory ran out.
        refused_forks: processes that could not be made.
        enforced: names of the limits that held: SIGXCPU and SIGXFSZ of a command speak of `cpu` and
            `file_size` only where those were limited.
    """

    oom_kills: int = 0
    refused_forks: int = 0
    enforced: frozenset[str] = frozenset()


class Enforced(NamedTuple):
    """A sandbox whose limits are set.

    Attributes:
        plan: what keeps which.
        cgroup: to be removed when the sandbox has ended; None where this server can make none.
    """

    plan: LimitPlan
    cgroup: Cgroup | None

    def facts(self) -> LimitFacts:
        """Return what is known so far; read it before the control group is removed."""
        return facts(self.cgroup, self.plan.enforced)


def facts(cgroup: Cgroup | None, enforced: Collection[str]) -> LimitFacts:
    """Return what a control group, if there is one, and the names of the limits that held tell."""
    counted = (0, 0) if cgroup is None else cgroup.events()
    return LimitFacts(*counted, frozenset(enforced))


def counts_processes(uid: int, release: str) -> bool:
    """Tell whether the resource limit of processes counts those of one sandbox, and only those.

    It is not for root's. Before Linux 5.14 it counted all that a user has, in and outside of sandboxes.

    Args:
        uid: of the command on the host.
        release: of the kernel, as `os.uname` tells it.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return uid != 0 and numbers is not None and (int(numbers[1]), int(numbers[2])) >= (5, 14)


def finding(cgroups: Cgroups) -> Finding:
    """Tell what the doctor says of limits: which hold for a sandbox as a whole."""
    names = " and ".join(sorted(cgroups.controllers)) or "nothing"
    text = f"control groups limit {names}"
    return Finding("sandbox: limits", True, f"{text}: {cgroups.reason}" if cgroups.reason else text)


def plan(limits: Limits, controllers: Collection[str], uid: int, release: str = _RELEASE) -> LimitPlan:
    """Decide what keeps each limit.

    Args:
        controllers: what the sandbox's control group limits: `memory`, `pids`.
        uid: of the command on the host.
        release: of the kernel.

    Raises:
        InvalidRequest: with so few descriptors no sandbox can be built.
    """
    if limits.descriptors is not None and limits.descriptors < LEAST_DESCRIPTORS:
        raise InvalidRequest(
            f"a sandbox takes {LEAST_DESCRIPTORS} descriptors to build: ask for at least as many",
            field="limits.descriptors",
        )
    counts = counts_processes(uid, release)
    rlimits = [Rlimit(resource.RLIMIT_CORE, 0, 0)]
    enforced: dict[LimitName, Scope] = {}
    missing: list[LimitName] = []
    for name in NAMES:
        value = getattr(limits, name)
        if value is None:
            continue
        in_group = _CONTROLLER.get(name) in controllers
        is_counted = in_group or name != "processes" or counts
        if is_counted:
            enforced[name] = "sandbox" if in_group or name == "processes" else "process"
        if not is_counted or (name == "memory" and not in_group):
            missing.append(name)
        if is_counted and not in_group:
            rlimits.append(_rlimit(name, value))
    return LimitPlan(tuple(rlimits), enforced, tuple(missing))


def _rlimit(name: LimitName, value: int) -> Rlimit:
    if name == "cpu":
        return Rlimit(resource.RLIMIT_CPU, value, value + _CPU_GRACE)
    total = value + OWN_PROCESSES if name == "processes" else value
    return Rlimit(_KINDS[name], total, total)


def check(found: LimitPlan, reason: str = "") -> None:
    """Refuse a sandbox whose limits do not all hold.

    Raises:
        SandboxUnavailable: with `missing`, the names of those that do not.
    """
    if found.missing:
        names = ", ".join(found.missing)
        remedy = f": {reason}" if reason else ""
        raise SandboxUnavailable(
            f"limits that were required cannot be enforced here ({names}){remedy}",
            reason="limits",
            missing=list(found.missing),
        )


def group_for(key: str, limits: Limits, cgroups: Cgroups, own: int = JOINED_PROCESSES) -> Cgroup | None:
    """Make the control group of a sandbox whose wrapper joins it by itself, by `Cgroup.joins`.

    Args:
        key: of this life of the process, for the group's name.

    Returns:
        `None` if it has no limit that a group keeps, or no group can be made.
    """
    if not has_any(limits, cgroups.controllers):
        return None
    try:
        return cgroups.create(key, limits, own)
    except OSError:
        return None


async def enforce(
    pid: int,
    key: str,
    limits: Limits,
    cgroups: Cgroups,
    uid: int,
    *,
    required: bool = False,
    cgroup: Cgroup | None = None,
) -> Enforced:
    """Set the limits of a sandbox on its first process, before that has started another one.

    Where the process cannot be put into a control group, resource limits take its place. Cancelling leaves
    no control group, and the process dead if it was in one.

    Args:
        pid: of the first process, on the host.
        key: of this life of the process, for the name of the control group.
        uid: of the command on the host.
        required: refuse where a limit does not hold.
        cgroup: of `group_for`, which the process was to join by itself; owned by this call from now on.
            Without it one is made here, and joining it takes longer.

    Raises:
        SandboxUnavailable: a required limit does not hold; no control group is left.
        InvalidRequest: as `plan`. OSError: the process has ended; no control group is left.
    """
    cgroup = cgroup or group_for(key, limits, cgroups, OWN_PROCESSES)
    try:
        controllers = frozenset() if cgroup is None else await cgroup.add(pid)
        found = plan(limits, controllers, uid)
        if required:
            check(found, cgroups.reason)
        apply(pid, found)
    except BaseException:
        if cgroup is not None:
            await cgroup.end()
        raise
    return Enforced(found, cgroup if controllers else None)


def apply(pid: int, found: LimitPlan) -> None:
    """Set the resource limits on a process; never above those that it has.

    Raises:
        OSError: it has ended.
    """
    for limit in found.rlimits:
        _, highest = resource.prlimit(pid, limit.kind)
        pair = (limit.soft, limit.hard)
        if highest != resource.RLIM_INFINITY:
            pair = (min(limit.soft, highest), min(limit.hard, highest))
        resource.prlimit(pid, limit.kind, pair)
