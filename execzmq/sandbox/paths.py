"""Own the way from permissions to a view: paths are resolved, checked, ordered, and opened.

What follows from what is decided in `layers`; here the disk is asked and the descriptors are made. Not
contained by any view: a file in a root that has a second name (hard link) outside is the same file.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from execzmq.errors import LimitExceeded, SandboxUnavailable
from execzmq.sandbox import places, repositories
from execzmq.sandbox.layers import (
    Layers,
    above,
    check_not_hidden,
    check_not_protected,
    check_place,
    clean,
    depth,
    is_within,
    refusal,
)
from execzmq.sandbox.model import Access, Mount, Permissions, View
from execzmq.sandbox.mountinfo import MountTable

MOST_MOUNTS = 1000
"""Mounts of one view besides its base."""
MOST_DESCRIPTORS = 240
"""Descriptors of one view: 253 fit into one message to the keeper, with those of the command."""

_MOST_CHECKED = 200
_MOUNTS_FILE = "/proc/self/mountinfo"


@dataclass(slots=True)
class _Plan:
    """What is to be mounted, before anything is opened."""

    layers: Layers
    denied: list[bytes]
    server: list[bytes]
    roots: list[bytes] = field(default_factory=list)
    above_roots: set[bytes] = field(default_factory=set)
    missing: set[bytes] = field(default_factory=set)


def view_of(
    permissions: Permissions, *, server_dirs: Sequence[bytes], placeholders: Collection[bytes] = ()
) -> View:
    """Return what a command with these permissions sees; the caller closes it.

    Args:
        permissions: what it may do.
        server_dirs: folders and files of the server's own, which no command sees.
        placeholders: paths whose empty folder was left by another sandbox: they count as missing.

    Raises:
        InvalidRequest: a path is refused; `reason` and `path` say why and which.
        LimitExceeded: that would be too many mounts.
        SandboxUnavailable: a file of the server's own has a second name, by which it could be read.
    """
    refuse_linked(server_dirs)
    plan = _plan(permissions, server_dirs)
    for path, level in _shown(permissions, plan):
        plan.layers.add(path, level)
    _hide(permissions.denied, plan.denied, plan)
    _hide(server_dirs, plan.server, plan)
    for path in _kept(permissions, plan.roots, plan.layers):
        _keep(path, plan, placeholders)
    return View(_opened(plan), tuple(plan.roots))


def _plan(permissions: Permissions, server_dirs: Sequence[bytes]) -> _Plan:
    with open(_MOUNTS_FILE, "rb") as file:
        mounts = MountTable(file.read())
    denied, server = (
        _everywhere(places.resolve_hidden(paths), mounts) for paths in (permissions.denied, server_dirs)
    )
    if b"/" in (*denied, *server):
        raise refusal("deny_is_slash", b"/", "cannot be denied: nothing could run")
    return _Plan(Layers(permissions.read), denied, server)


def _everywhere(paths: Sequence[bytes], mounts: MountTable) -> list[bytes]:
    """Return paths with the further ones at which other mounts show the same."""
    pairs = [pair for path in paths for pair in mounts.aliases(path)]
    return list(
        dict.fromkeys((*paths, *(alias for original, alias in pairs if places.are_same(original, alias))))
    )


def _shown(permissions: Permissions, plan: _Plan) -> Iterable[tuple[bytes, Access]]:
    """Yield what is asked to be shown, checked; fills in the roots."""
    wanted: list[tuple[Access, tuple[bytes, ...], tuple[bytes, ...] | None]] = [
        ("read", permissions.readable, permissions.read_within),
        ("write", permissions.writable, permissions.write_within),
    ]
    for level, paths, bounds in wanted:
        within = None if bounds is None else places.resolve_hidden(bounds)
        for path in paths:
            resolved = places.resolve(path, is_writable=level == "write")
            check_place(resolved)
            check_not_hidden(resolved, level, plan.denied, plan.server)
            if within is not None and not is_within(resolved, within):
                raise refusal("root_not_permitted", path, "leads outside of what the server allows")
            if level == "write" and resolved not in plan.roots:
                check_not_protected(resolved, _protected_names(permissions))
                plan.roots.append(resolved)
                plan.above_roots.update(above(resolved))
            yield resolved, level


def _hide(named: Iterable[bytes], resolved: Sequence[bytes], plan: _Plan) -> None:
    """Deny paths, and where a command could make what is missing of them, keep it missing."""
    through_links = [path for path in map(clean, named) if path not in resolved]
    for link in (link for path in through_links for link in places.links_in(path)):
        if plan.layers.beneath(link) == "write":
            raise refusal("denied_is_link", link, "is a symbolic link in a root, and hides nothing there")
    for path in resolved:
        if os.path.lexists(path):
            plan.layers.add(path, "deny")
        elif plan.layers.at(path) == "write":
            _keep_missing(places.nearest(path), "deny", plan)


def _keep_missing(path: bytes, level: Access, plan: _Plan) -> None:
    if places.may_create(os.path.dirname(path)):
        plan.layers.add(path, level)
        plan.missing.add(path)


def _protected_names(permissions: Permissions) -> list[bytes]:
    """Return the names that are kept in every root, and in which no root lies."""
    names = [name.strip(b"/") for name in permissions.protected if name.strip(b"/") != repositories.GIT]
    return names + [repositories.GIT] * (permissions.protect_git != "none")


def _kept(permissions: Permissions, roots: Sequence[bytes], layers: Layers) -> list[bytes]:
    """Return what must stay as it is, or missing, in every root."""
    writable = [root for root in roots if layers.at(root) == "write"]
    names = [name for name in _protected_names(permissions) if name != repositories.GIT]
    kept = [clean(os.path.join(root, name)) for root in writable for name in names]
    git = repositories.kept_of(writable, permissions.protect_git, lambda path: layers.at(path) == "write")
    return [*kept, *git]


def _keep(path: bytes, plan: _Plan, placeholders: Collection[bytes]) -> None:
    path = places.nearest(path)
    if path in plan.above_roots:
        raise refusal("root_is_protected", path, "is protected, and has another root in it: name fewer roots")
    if plan.layers.at(path) != "write":
        return
    if links := [link for link in places.links_in(path, plan.roots) if plan.layers.beneath(link) == "write"]:
        raise refusal(
            "protected_is_link", links[0], "is a protected name and a symbolic link: make it a folder"
        )
    if not os.path.lexists(path) or (path in placeholders and places.is_left_behind(path)):
        _keep_missing(path, "read", plan)
    else:
        plan.layers.add(path, "read")


def _opened(plan: _Plan) -> tuple[Mount, ...]:
    """Return the mounts with their descriptors, outer before inner, and the server's own last."""
    wanted = plan.layers.needed() | dict.fromkeys(plan.layers.pins(), "write")
    _check_number(wanted, plan)
    order = sorted(wanted, key=lambda path: (is_within(path, plan.server), depth(path), path))
    with contextlib.ExitStack() as opened:
        mounts = tuple(_mount(path, wanted[path], plan, opened) for path in order)
        opened.pop_all()
    return mounts


def _mount(path: bytes, level: Access, plan: _Plan, opened: contextlib.ExitStack) -> Mount:
    is_missing = path in plan.missing
    is_dir = os.path.basename(path) != repositories.COMMON if is_missing else places.is_folder(path)
    fd = -1
    if level != "deny" and not is_missing:
        fd = places.open_path(path, is_dir=is_dir)
        opened.callback(os.close, fd)
    return Mount(path, level, is_dir, fd, is_missing, is_within(path, plan.server))


def _check_number(wanted: dict[bytes, Access], plan: _Plan) -> None:
    descriptors = sum(level != "deny" and path not in plan.missing for path, level in wanted.items())
    for value, limit, words in (
        (len(wanted), MOST_MOUNTS, "mounts"),
        (descriptors, MOST_DESCRIPTORS, "folders and files that must be mounted by themselves"),
    ):
        if value > limit:
            message = f"the sandbox would have {value} {words}, the most is {limit}: name fewer roots"
            raise LimitExceeded(message, limit=limit, value=value, reason="too_many_mounts")


def refuse_linked(server_dirs: Iterable[bytes]) -> None:
    """Refuse to hide a file that has a second name: it may be read by that one.

    Raises:
        SandboxUnavailable: with the path.
    """
    for path in server_dirs:
        for file in _files_of(path):
            if file.st_nlink > 1 and stat.S_ISREG(file.st_mode):
                shown = os.fsdecode(path)
                message = f"a file of the server in {shown!r} has a second name (hard link): remove that one"
                raise SandboxUnavailable(message, reason="server_file_linked", path=shown)


def _files_of(path: bytes) -> list[os.stat_result]:
    """Return the status of a file, or of the first files of a folder."""
    try:
        if not places.is_folder(path):
            return [os.lstat(path)]
        with os.scandir(path) as entries:
            return [
                entry.stat(follow_symlinks=False)
                for entry, _ in zip(entries, range(_MOST_CHECKED), strict=False)
            ]
    except OSError as error:
        places.check_not_scarce(error)
        return []
