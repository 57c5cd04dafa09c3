"""Own the way from permissions to a plan of a view: paths are resolved, checked, and ordered.

A plan follows from a `Wish` and from the answers of a `Disk`, and from nothing else: no look at the disk is
taken here, and nothing is opened. What follows from what is decided in `layers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from execzmq.errors import LimitExceeded, SandboxUnavailable
from execzmq.sandbox import places, repositories
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.layers import (
    OWN_FOLDERS,
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
from execzmq.sandbox.model import Access, Mount, Permissions, ProtectGit, Readable
from execzmq.sandbox.mountinfo import MountTable

MOST_MOUNTS = 1000
"""Mounts of one view besides its base."""
MOST_DESCRIPTORS = 240
"""Descriptors of one view: 253 fit into one message to the keeper, with those of the command."""

table_of = lru_cache(maxsize=1)(MountTable)
"""The table in the content of a `mountinfo` file: it hardly ever changes."""


class Wish(NamedTuple):
    """What of permissions, and of a server, decides about a view.

    Attributes:
        server_dirs: folders and files of the server's own, which no command sees.
        own_code: what the next server will execute: it stays as it is where a root holds it.
    """

    read: Readable
    readable: tuple[bytes, ...]
    writable: tuple[bytes, ...]
    denied: tuple[bytes, ...]
    protected: tuple[bytes, ...]
    protect_git: ProtectGit
    write_within: tuple[bytes, ...] | None
    read_within: tuple[bytes, ...] | None
    server_dirs: tuple[bytes, ...]
    own_code: tuple[bytes, ...]


def wish_of(permissions: Permissions, server_dirs: Iterable[bytes], own_code: Iterable[bytes] = ()) -> Wish:
    """Return what of permissions decides about a view."""
    return Wish(
        permissions.read,
        permissions.readable,
        permissions.writable,
        permissions.denied,
        permissions.protected,
        permissions.protect_git,
        permissions.write_within,
        permissions.read_within,
        tuple(server_dirs),
        tuple(own_code),
    )


class Plan(NamedTuple):
    """A view of which nothing is opened yet.

    Attributes:
        mounts: outer before inner, and the server's own last; without descriptors.
        roots: the writable roots as resolved.
        is_shared: as of a view.
    """

    mounts: tuple[Mount, ...]
    roots: tuple[bytes, ...]
    is_shared: bool


@dataclass(slots=True)
class _Draft:
    """What is to be mounted, as far as it is known."""

    wish: Wish
    disk: Disk
    layers: Layers
    denied: list[bytes]
    server: list[bytes]
    roots: list[bytes] = field(default_factory=list)
    above_roots: set[bytes] = field(default_factory=set)
    missing: set[bytes] = field(default_factory=set)


def plan_of(wish: Wish, disk: Disk) -> Plan:
    """Return what a command sees; what is missing of it on the disk, or refused, is an error.

    Raises:
        InvalidRequest: a path is refused; `reason` and `path` say why and which.
        LimitExceeded: that would be too many mounts.
        SandboxUnavailable: a file of the server's own has a second name, by which it could be read.
        OSError: the disk cannot be looked at now.
    """
    mounts = table_of(disk.mounts())  # first of all: what is mounted tells what may be looked at at once
    refuse_linked(wish.server_dirs, disk)
    draft = _begun(wish, disk, mounts)
    for path, level in _shown(draft):
        draft.layers.add(path, level)
    _hide(wish.denied, draft.denied, draft)
    _hide(wish.server_dirs, draft.server, draft)
    for path in _kept(draft):
        _keep(path, draft)
    return Plan(_mounts(draft), tuple(draft.roots), mounts.are_shared)


def refuse_linked(server_dirs: Iterable[bytes], disk: Disk) -> None:
    """Refuse to hide a file that has a second name: it may be read by that one.

    Raises:
        SandboxUnavailable: with the path.
    """
    for path in server_dirs:
        if disk.exists(path) and disk.has_second_name(path):
            shown = os.fsdecode(path)
            message = f"a file of the server in {shown!r} has a second name (hard link): remove that one"
            raise SandboxUnavailable(message, reason="server_file_linked", path=shown)


def _begun(wish: Wish, disk: Disk, mounts: MountTable) -> _Draft:
    denied, server = (
        _everywhere(places.resolve_hidden(paths, disk), mounts, disk)
        for paths in (wish.denied, wish.server_dirs)
    )
    if b"/" in (*denied, *server):
        raise refusal("deny_is_slash", b"/", "cannot be denied: nothing could run")
    return _Draft(wish, disk, Layers(wish.read), denied, server)


def _everywhere(paths: Sequence[bytes], mounts: MountTable, disk: Disk) -> list[bytes]:
    """Return paths with the further ones at which other mounts show the same."""
    pairs = [pair for path in paths for pair in mounts.aliases(path)]
    further = (alias for original, alias in pairs if places.are_same(original, alias, disk))
    return list(dict.fromkeys((*paths, *further)))


def _shown(draft: _Draft) -> Iterable[tuple[bytes, Access]]:
    """Yield what is asked to be shown, checked; fills in the roots."""
    wish, disk = draft.wish, draft.disk
    readable = (*wish.readable, *_own_code(wish, disk))
    wanted: list[tuple[Access, tuple[bytes, ...], tuple[bytes, ...] | None]] = [
        ("read", readable, wish.read_within),
        ("write", wish.writable, wish.write_within),
    ]
    for level, paths, bounds in wanted:
        within = None if bounds is None else places.resolve_hidden(bounds, disk)
        for path in paths:
            resolved = places.resolve(path, disk, is_writable=level == "write")
            check_place(resolved)
            check_not_hidden(resolved, level, draft.denied, draft.server)
            is_more = level == "write" or wish.read != "host" or is_within(resolved, OWN_FOLDERS)
            if is_more and within is not None and not is_within(resolved, within):
                raise refusal("root_not_permitted", path, "leads outside of what the server allows")
            if level == "write" and resolved not in draft.roots:
                check_not_protected(resolved, _protected_names(wish))
                draft.roots.append(resolved)
                draft.above_roots.update(above(resolved))
            yield resolved, level


def _own_code(wish: Wish, disk: Disk) -> list[bytes]:
    """Return what of the server's own code lies in a root."""
    roots = [disk.real(clean(root)) for root in wish.writable]
    code = {disk.real(path) for path in wish.own_code}
    return [path for path in sorted(code) if is_within(path, roots) and path not in roots]


def _hide(named: Iterable[bytes], resolved: Sequence[bytes], draft: _Draft) -> None:
    """Deny paths, and where a command could make what is missing of them, keep it missing."""
    layers, disk = draft.layers, draft.disk
    through_links = [path for path in map(clean, named) if path not in resolved]
    for link in (link for path in through_links for link in places.links_in(path, disk)):
        if layers.beneath(link) == "write":
            raise refusal("denied_is_link", link, "is a symbolic link in a root, and hides nothing there")
    for path in resolved:
        if disk.exists(path):
            layers.add(path, "deny")
        elif layers.at(path) == "write":
            _keep_missing(places.nearest(path, disk), "deny", draft)


def _keep_missing(path: bytes, level: Access, draft: _Draft) -> None:
    if draft.disk.may_create(os.path.dirname(path)):
        draft.layers.add(path, level)
        draft.missing.add(path)


def _protected_names(wish: Wish) -> list[bytes]:
    """Return the names that are kept in every root, and in which no root lies."""
    names = [name.strip(b"/") for name in wish.protected if name.strip(b"/") != repositories.GIT]
    return names + [repositories.GIT] * (wish.protect_git != "none")


def _kept(draft: _Draft) -> list[bytes]:
    """Return what must stay as it is, or missing, in every root."""
    wish, layers = draft.wish, draft.layers
    writable = [root for root in draft.roots if layers.at(root) == "write"]
    names = [name for name in _protected_names(wish) if name != repositories.GIT]
    kept = [clean(os.path.join(root, name)) for root in writable for name in names]
    closed = frozenset(kept)

    def may_enter(folder: bytes) -> bool:
        return folder not in closed and layers.at(folder) == "write"

    return [*kept, *repositories.kept_of(writable, wish.protect_git, may_enter, draft.disk)]


def _keep(path: bytes, draft: _Draft) -> None:
    layers, disk = draft.layers, draft.disk
    path = places.nearest(path, disk)
    if path in draft.above_roots:
        raise refusal("root_is_protected", path, "is protected, and has another root in it: name fewer roots")
    if layers.at(path) != "write":
        return
    links = places.links_in(path, disk, draft.roots)
    if links := [link for link in links if layers.beneath(link) == "write"]:
        raise refusal(
            "protected_is_link", links[0], "is a protected name and a symbolic link: make it a folder"
        )
    if not disk.exists(path) or (disk.is_placeholder(path) and disk.is_left_behind(path)):
        _keep_missing(path, "read", draft)
    else:
        layers.add(path, "read")


def _mounts(draft: _Draft) -> tuple[Mount, ...]:
    """Return the mounts, outer before inner, and the server's own last."""
    wanted = draft.layers.needed() | dict.fromkeys(draft.layers.pins(), "write")
    order = sorted(wanted, key=lambda path: (is_within(path, draft.server), depth(path), path))
    mounts = tuple(_mount(path, wanted[path], draft) for path in order)
    _check_number(mounts)
    return mounts


def _mount(path: bytes, level: Access, draft: _Draft) -> Mount:
    is_missing = path in draft.missing
    is_dir = os.path.basename(path) != repositories.COMMON if is_missing else draft.disk.is_folder(path)
    return Mount(path, level, is_dir, -1, is_missing, is_within(path, draft.server))


def _check_number(mounts: Sequence[Mount]) -> None:
    for value, limit, words in (
        (len(mounts), MOST_MOUNTS, "mounts"),
        (
            sum(mount.shows for mount in mounts),
            MOST_DESCRIPTORS,
            "folders and files that must be mounted by themselves",
        ),
    ):
        if value > limit:
            message = f"the sandbox would have {value} {words}, the most is {limit}: name fewer roots"
            raise LimitExceeded(message, limit=limit, value=value, reason="too_many_mounts")
