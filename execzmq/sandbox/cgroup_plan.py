"""Own what is known of control groups as text: where they are, who may make them, what they are told. Pure.

Version 1 has a tree for each controller, version 2 one for all, and both may be there at once. Only `memory`
and `pids` matter here: what else is limited, the kernel limits for each process by itself.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from execzmq.types.params import Limits

Controller = Literal["memory", "pids"]
CONTROLLERS: tuple[Controller, ...] = ("memory", "pids")

LEAF = "execzmq.server"
"""Version 2: group of the processes that had to leave a group, so that it may have limited ones below it."""
SANDBOXES = "execzmq-sandboxes.service"
"""The systemd unit that lends its group to the sandboxes of a server that runs beside it."""
OWN_PROCESSES = 1
"""Processes of a sandbox that are not the command's: its pid 1."""
JOINED_PROCESSES = 2
"""The same where the wrapper has put itself into the group: its monitor is there as well."""

_UNIFIED = ""
_MOST_PROCESSES = 4_194_304
"""The kernel's PID_MAX_LIMIT: it refuses to write more."""
_NAME = re.compile(r"execzmq\.[0-9a-f]{16}\.")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Hierarchy(NamedTuple):
    """A tree of groups that is mounted.

    Attributes:
        version: 1 or 2.
        controllers: version 1: what it controls; version 2: empty, each group names its own.
        root: the group that is shown at `point`.
        point: where it is mounted.
    """

    version: int
    controllers: frozenset[str]
    root: str
    point: str


class Write(NamedTuple):
    """One value for one file of a group; a missing file is an error unless the write is `optional`."""

    file: str
    value: str
    optional: bool = False


class Events(NamedTuple):
    """What a group has counted.

    Attributes:
        oom_kills: processes that were killed because memory ran out.
        refused_forks: processes that could not be made, for their number.
    """

    oom_kills: int = 0
    refused_forks: int = 0


class Counted(NamedTuple):
    """What a group uses; `None` = it does not count that.

    Attributes:
        cpu_seconds: processor time of all that is and was in it.
        memory_bytes: memory that it holds, without what the kernel gives back at once.
    """

    cpu_seconds: float | None = None
    memory_bytes: int | None = None


def hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the trees in the text of `/proc/self/mountinfo`, in its order."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind in ("cgroup", "cgroup2"):
            root, point = (_unescape(field) for field in before.split(" ")[3:5])
            of_mount = frozenset(options.rpartition(" ")[2].split(",")) if kind == "cgroup" else frozenset()
            found.append(Hierarchy(2 if kind == "cgroup2" else 1, of_mount & {*CONTROLLERS}, root, point))
    return found


def _unescape(field: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


def memberships(text: str) -> dict[str, str]:
    """Return the group of a process by controller, from its `/proc/PID/cgroup`; `""` is version 2."""
    groups = {}
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), group))
    return groups


def folder_of(hierarchy: Hierarchy, groups: dict[str, str]) -> str | None:
    """Return the folder of a process's group in this tree; None if it is not shown there."""
    names = hierarchy.controllers if hierarchy.version == 1 else {_UNIFIED}
    group = next((groups[name] for name in names if name in groups), None)
    if group is None or group.startswith("/.."):
        return None
    below = posixpath.relpath(group, hierarchy.root)
    return None if below.startswith("..") else posixpath.normpath(posixpath.join(hierarchy.point, below))


def lent(own: str, is_managed: bool, is_delegated: Callable[[str], bool]) -> str | None:
    """Return the folder of a version 2 group below which this server may make groups; None if there is none.

    A systemd service's own group is none: while it has limited groups below it, systemd cannot put a process
    into it, and so could not start the service again after a crash.

    Args:
        own: folder of the server's group.
        is_managed: whether systemd owns the tree; otherwise whoever may write may have it.
        is_delegated: tells whether systemd has given a group away.
    """
    above, name = posixpath.split(own)
    if name == LEAF:
        return above
    beside = posixpath.join(above, SANDBOXES)
    if is_delegated(beside):
        return beside
    is_free = not is_managed or (is_delegated(own) and not name.endswith(".service"))
    return own if is_free else None


def prefix_of(identity: str) -> str:
    """Return how the names of a server's groups begin; `identity` is its own, such as its state folder."""
    return f"execzmq.{hashlib.sha256(identity.encode(errors='surrogateescape')).hexdigest()[:16]}."


def is_name(name: str) -> bool:
    """Tell whether a group's name is one that some server gives."""
    return _NAME.match(name) is not None


def is_member(name: str, controllers: Iterable[str], groups: dict[str, str]) -> bool:
    """Tell whether a process is in the groups of this name; `groups` is what `memberships` returns."""
    return all(posixpath.basename(groups.get(key, "")) == name for key in controllers)


def has_any(limits: Limits, controllers: Iterable[str]) -> bool:
    """Tell whether there is something that a group with these controllers can limit."""
    return bool(writes(1, controllers, limits))


def writes(version: int, controllers: Iterable[str], limits: Limits, own: int = OWN_PROCESSES) -> list[Write]:
    """Return what sets `limits` in a new group, in order; `own` processes in it are not the command's."""
    found: list[Write] = []
    if limits.memory is not None and "memory" in controllers:
        found += _memory(version, limits.memory)
    if limits.processes is not None and "pids" in controllers:
        found.append(Write("pids.max", str(min(limits.processes + own, _MOST_PROCESSES))))
    return found


def _memory(version: int, size: int) -> list[Write]:
    """Return the writes for memory: no swap, and in version 2 all processes end together rather than one."""
    if version == 1:
        return [
            Write("memory.limit_in_bytes", str(size)),
            Write("memory.memsw.limit_in_bytes", str(size), optional=True),
        ]
    return [
        Write("memory.max", str(size)),
        Write("memory.swap.max", "0", optional=True),
        Write("memory.oom.group", "1", optional=True),
    ]


def oom_file(version: int) -> str:
    """Return the file of a group that counts what was killed for want of memory."""
    return "memory.oom_control" if version == 1 else "memory.events"


def memory_files(version: int) -> tuple[str, str]:
    """Return the file with the memory that a group holds, and what counts in `memory.stat` as spare of it."""
    if version == 1:
        return "memory.usage_in_bytes", "total_inactive_file"
    return "memory.current", "inactive_file"


def counter(text: str, name: str) -> int:
    """Return one number of a file with `NAME NUMBER` lines; 0 if it has no such line."""
    pairs = (line.split() for line in text.splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == name), 0)
