"""Own the reading of the kernel's list of mounts: where one folder is seen under a second path. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from execzmq.sandbox.layers import is_within

_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mounted(NamedTuple):
    """One mount: the part `root` of the file system `device` is seen at `place`."""

    device: bytes
    root: bytes
    place: bytes


def parse(data: bytes) -> list[Mounted]:
    """Return the mounts that a `mountinfo` file lists, in its order: later ones lie over earlier ones."""
    fields = (line.split(b" ", 5) for line in data.splitlines())
    return [Mounted(f[2], _plain(f[3]), _plain(f[4])) for f in fields if len(f) > 5]


def aliases(path: bytes, mounts: Sequence[Mounted]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the further paths at which a folder, or a part of it, may be seen, after the path of that part.

    Args:
        path: resolved.
        mounts: of this process; a path that they give may be hidden by a later mount.
    """
    home = _mount_of(path, mounts)
    if home is None:
        return
    inside = _join(home.root, _below(path, home.place))
    for mount in mounts:
        if mount.device != home.device or mount is home:
            continue
        if is_within(inside, (mount.root,)):
            yield path, _join(mount.place, _below(inside, mount.root))
        elif is_within(mount.root, (inside,)):
            yield _join(path, _below(mount.root, inside)), mount.place


def _below(path: bytes, folder: bytes) -> bytes:
    return path[len(folder.rstrip(b"/")) :]


def _mount_of(path: bytes, mounts: Sequence[Mounted]) -> Mounted | None:
    holding = [mount for mount in mounts if is_within(path, (mount.place,))]
    deepest = max((len(mount.place) for mount in holding), default=0)
    return next((mount for mount in reversed(holding) if len(mount.place) == deepest), None)


def _join(folder: bytes, rest: bytes) -> bytes:
    return (folder.rstrip(b"/") + b"/" + rest.strip(b"/")).rstrip(b"/") or b"/"


def _plain(field: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)
