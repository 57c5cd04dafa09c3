"""Own the control groups of one server's sandboxes, from `mkdir` to `rmdir`; know nothing of how they end.

Nearly all is done by a few writes of some bytes: 0.5 ms for all of a group's life. `add` may wait for the
kernel, as does `remove`, since a group is busy until the kernel has done with its last process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from execzmq.aside import aside
from execzmq.sandbox import cgroup_files as files
from execzmq.sandbox import cgroup_owner
from execzmq.sandbox import cgroup_plan as plan
from execzmq.sandbox.cgroup_plan import Events
from execzmq.types.params import Limits

ADD_LIMIT = 5.0
"""Seconds in which the kernel must have put a process into a group."""

REMOVE_LIMIT = 5.0
"""Seconds after which `remove` leaves a busy group to a later `recover`."""

TIDY_LIMIT = 1.0
"""The same of `tidy`, for which the end of a server waits."""

_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.1
_FOLDERS_LIMIT = 16_384
"""Groups that `recover` looks at in one tree; a machine has hundreds."""


class Place(NamedTuple):
    """Where groups are made in one tree.

    Attributes:
        folder: of the group below which they are.
        version: 1 or 2.
        controllers: what they limit there.
    """

    folder: str
    version: int
    controllers: frozenset[str]


class Cgroup:
    """The groups of one sandbox, one for each tree.

    Args:
        folders: a folder in each place.
    """

    __slots__ = ("_folders",)

    def __init__(self, folders: dict[Place, str]) -> None:
        self._folders = folders

    @property
    def joins(self) -> tuple[bytes, ...]:
        """Return files to which a process with one thread writes `0` to join by itself, where that is faster.

        For one that moves itself within version 1 the kernel need not keep all others from forking, for which
        it waits as long as bubblewrap takes.
        """
        folders = [folder for place, folder in self._folders.items() if place.version == 1]
        return tuple(os.fsencode(f"{folder}/tasks") for folder in folders)

    async def add(self, pid: int) -> frozenset[str]:
        """See a process into the group; what it starts from then on is in it as well.

        One that has not joined by itself is put there, for which the kernel takes some 10 ms. Where this user
        may not do that, the tree's part of the group goes. Cancelling leaves it where it is.

        Returns:
            What now limits it: `memory`, `pids`.

        Raises:
            ProcessLookupError: it has ended.
        """
        groups = plan.memberships(files.read("/proc", f"{pid}/cgroup"))
        for place, folder in list(self._folders.items()):
            keys = place.controllers if place.version == 1 else {""}
            if plan.is_member(os.path.basename(folder), keys, groups):
                continue
            try:
                await aside(partial(files.write, folder, "cgroup.procs", str(pid)), ADD_LIMIT)
            except ProcessLookupError:
                raise
            except OSError:
                files.remove(folder)
                del self._folders[place]
        return frozenset(name for place in self._folders for name in place.controllers)

    def events(self) -> Events:
        """Return what was counted so far; zeros once the group is removed."""
        counted = Events()
        for place, folder in self._folders.items():
            if "memory" in place.controllers:
                kills = plan.counter(files.read(folder, plan.oom_file(place.version)), "oom_kill")
                counted = counted._replace(oom_kills=kills)
            if "pids" in place.controllers:
                refused = plan.counter(files.read(folder, "pids.events"), "max")
                counted = counted._replace(refused_forks=refused)
        return counted

    def usage(self) -> plan.Counted:
        """Return what is used by all that is in it; nothing once the group is removed."""
        counted = plan.Counted()
        for place, folder in list(self._folders.items()):
            if "memory" in place.controllers:
                counted = counted._replace(memory_bytes=_memory_of(folder, place.version))
            if place.version == 2 and (text := files.read(folder, "cpu.stat")):
                counted = counted._replace(cpu_seconds=plan.counter(text, "usage_usec") / 1e6)
        return counted

    async def end(self, limit: float = REMOVE_LIMIT) -> bool:
        """Kill every process of the group, those that are made meanwhile too, and remove it; idempotent.

        Cancelled it has killed those that it saw; the rest is left to `Cgroups.recover`, as by a False.

        Args:
            limit: seconds to wait for its last processes to be gone.

        Returns:
            Whether it is gone.
        """
        return await _until_done(self._end_now, limit)

    async def remove(self, limit: float = REMOVE_LIMIT) -> bool:
        """Remove the group, with which its counts go; idempotent.

        Cancelling leaves it to `Cgroups.recover`, as does a False.

        Args:
            limit: seconds to wait for its last processes to be gone.

        Returns:
            Whether it is gone.
        """
        return await _until_done(self.remove_now, limit)

    def remove_now(self) -> bool:
        """Remove the group if no process is in it, and tell whether it is gone."""
        self._folders = {place: folder for place, folder in self._folders.items() if not files.remove(folder)}
        return not self._folders

    def _end_now(self) -> bool:
        # Again each time: a process that is just being made is listed nowhere, until who makes it goes on.
        for place, folder in self._folders.items():
            with suppress(OSError):
                files.kill(folder, place.version, may_stop_growth="pids" in place.controllers)
        return self.remove_now()


class Recovered(NamedTuple):
    """What an earlier life has left.

    Attributes:
        known: by key, the groups that were asked for; with what they have counted while no server lived.
        busy: folders of groups with processes that nobody knows of. They are left alone.
    """

    known: dict[str, Cgroup]
    busy: list[str]


class Cgroups:
    """Makes the groups of one server, and finds again what an earlier life of it has left.

    Two servers never touch each other's: the names begin with what tells them apart.

    Args:
        prefix: how the names begin.
        places: one for each tree that has something to limit with.
        trees: all that are mounted.
        reason: why not all can be limited; empty if it can.

    `controllers` is what can be limited on this machine, in all `places`.
    """

    def __init__(
        self,
        prefix: str,
        places: tuple[Place, ...] = (),
        trees: tuple[plan.Hierarchy, ...] = (),
        reason: str = "",
    ) -> None:
        self._prefix = prefix
        self.places = places
        self._trees = trees
        self.reason = reason
        self.controllers = frozenset(name for place in places for name in place.controllers)

    @classmethod
    def find(cls, identity: str, root: str = "") -> Cgroups:
        """Find out what this machine lets the server do, by trying it.

        With version 2 it moves the processes of a group that was given away, this one among them, into a
        group below it: one that has processes itself cannot have limited ones. So call it before others
        are started.

        Args:
            identity: what tells this server from all others of this machine, in all its lives.
            root: before every path; a test has its own tree.
        """
        trees = [
            tree._replace(point=root + tree.point)
            for tree in plan.hierarchies(files.read(root, "proc/self/mountinfo"))
            if tree.version == 2 or tree.controllers
        ]
        groups = plan.memberships(files.read(root, "proc/self/cgroup"))
        is_managed = os.path.isdir(f"{root}/run/systemd/system")
        prefix = plan.prefix_of(identity)
        places: list[Place] = []
        missing = frozenset(plan.CONTROLLERS)
        for place in (place for tree in trees for place in _offered(tree, groups, is_managed)):
            useful = place._replace(controllers=place.controllers & missing)
            if useful.controllers and _works(useful, prefix):
                places.append(useful)
                missing -= useful.controllers
        return cls(prefix, tuple(places), tuple(trees), _reason(missing, is_managed))

    def create(self, key: str, limits: Limits, own: int = plan.OWN_PROCESSES) -> Cgroup:
        """Make the group of a sandbox, with those of its limits that groups here can have.

        Args:
            key: `[A-Za-z0-9_-]{1,128}`, of one life of one process.
            own: processes in it that are not the command's.

        Raises:
            OSError: it cannot be made; nothing of it is left.
        """
        made: dict[Place, str] = {}
        try:
            for place in self.places:
                folder = self._folder(place, key)
                files.make(folder)
                made[place] = folder
                for write in plan.writes(place.version, place.controllers, limits, own):
                    files.set_value(folder, write)
        except OSError:
            Cgroup(made).remove_now()
            raise
        return Cgroup(made)

    def recover(self, alive_keys: Collection[str] = ()) -> Recovered:
        """Find what an earlier life of this server has left, wherever that was started, and remove the rest.

        With it go empty groups of other servers of this user that have ended: they might never come back.

        Args:
            alive_keys: of the sandboxes whose end this server has yet to see.
        """
        known: dict[str, dict[Place, str]] = {}
        busy = []
        for tree in self._trees:
            for folder in _folders(tree.point):
                above, name = os.path.split(folder)
                key = name.removeprefix(self._prefix)
                if not name.startswith(self._prefix):
                    _remove_abandoned(folder, name)
                elif key in alive_keys:
                    cgroup_owner.claim(folder)
                    place = Place(above, tree.version, _controllers(tree, folder))
                    known.setdefault(key, {})[place] = folder
                elif not files.remove(folder):
                    busy.append(folder)
        return Recovered({key: Cgroup(folders) for key, folders in known.items()}, busy)

    async def tidy(self, alive_keys: Collection[str] = (), limit: float = TIDY_LIMIT) -> list[str]:
        """Remove all groups of this server but those of `alive_keys`; for its end, when others were killed.

        Cancelling leaves the rest to the next life's `recover`.

        Args:
            limit: seconds to wait for the last processes in them to be gone.

        Returns:
            The folders of those that are busy still.
        """
        busy: list[str] = []

        def is_tidy() -> bool:
            busy[:] = self.recover(alive_keys).busy
            return not busy

        await _until_done(is_tidy, limit)
        return busy

    def _folder(self, place: Place, key: str) -> str:
        return f"{place.folder}/{self._prefix}{key}"


def _offered(tree: plan.Hierarchy, groups: dict[str, str], is_managed: bool) -> Iterator[Place]:
    """Yield where groups may be made in a tree, if anywhere."""
    own = plan.folder_of(tree, groups)
    folder = own if own is None or tree.version == 1 else plan.lent(own, is_managed, _is_delegated)
    if folder is not None and os.access(folder, os.W_OK):
        yield Place(folder, tree.version, _controllers(tree, folder))


def _controllers(tree: plan.Hierarchy, folder: str) -> frozenset[str]:
    if tree.version == 1:
        return tree.controllers
    return frozenset(files.read(folder, "cgroup.controllers").split()) & {*plan.CONTROLLERS}


def _is_delegated(folder: str) -> bool:
    """Tell whether systemd has given this group away; `trusted` can be read by root alone."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _works(place: Place, prefix: str) -> bool:
    """Tell whether a limited group can be made here, by making one."""
    folder = f"{place.folder}/{prefix}{os.getpid()}.try"
    try:
        if place.version == 2:
            enable(place.folder, place.controllers)
        files.make(folder)
        for write in plan.writes(place.version, place.controllers, Limits(memory=1 << 20, processes=1)):
            files.set_value(folder, write)
    except OSError:
        return False
    finally:
        files.remove(folder)
    return True


def enable(folder: str, controllers: Collection[str]) -> None:
    """Let the groups below a version 2 group have controllers; its own processes go into a group below it.

    Raises:
        OSError: this user may not, or a process could not be moved.
    """
    if set(controllers) <= set(files.read(folder, "cgroup.subtree_control").split()):
        return
    leaf = f"{folder}/{plan.LEAF}"
    with suppress(FileExistsError):
        os.mkdir(leaf)
    for pid in files.read(folder, "cgroup.procs").split():
        with suppress(ProcessLookupError):
            files.write(leaf, "cgroup.procs", pid)
    files.write(folder, "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(controllers)))


def _reason(missing: Collection[str], is_managed: bool) -> str:
    if not missing:
        return ""
    how = f"start {plan.SANDBOXES}" if is_managed else "let it write to its own control group"
    return f"the server can limit no sandbox as a whole in {' and '.join(sorted(missing))}: {how}"


def _memory_of(folder: str, version: int) -> int | None:
    held, spare = plan.memory_files(version)
    if not (text := files.read(folder, held)):
        return None
    return max(0, int(text) - plan.counter(files.read(folder, "memory.stat"), spare))


async def _until_done(attempt: Callable[[], bool], limit: float) -> bool:
    """Try until it is done, at most for so many seconds and once at least; tell whether it is."""
    end = asyncio.get_running_loop().time() + limit
    wait = _FIRST_WAIT
    while not (done := attempt()) and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
    return done


def _remove_abandoned(folder: str, name: str) -> None:
    if plan.is_name(name) and cgroup_owner.is_abandoned(folder):
        files.remove(folder)


def _folders(point: str) -> Iterator[str]:
    """Yield all groups of a tree, a bounded number of them."""
    left = [point]
    for _ in range(_FOLDERS_LIMIT):
        if not left:
            return
        with suppress(OSError), os.scandir(left.pop()) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            left += below
            yield from below
