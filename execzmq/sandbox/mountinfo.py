"""Own the reading of the kernel's list of mounts: where one folder is seen under a second path. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from execzmq.sandbox.layers import above, is_within

_OWN = (b"/run/", b"/tmp/", b"/dev/", b"/proc/")
"""Where every sandbox has a folder of its own."""
_LOCAL = frozenset(
    b"btrfs devtmpfs erofs exfat ext2 ext3 ext4 f2fs jfs overlay ramfs squashfs tmpfs vfat xfs zfs".split()
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mounted(NamedTuple):
    """One mount: the part `root` of the file system `device`, of the type `kind`, is seen at `place`."""

    device: bytes
    root: bytes
    place: bytes
    kind: bytes


class MountTable:
    """The mounts of this process.

    Args:
        data: content of a `mountinfo` file.

    Attributes:
        are_shared: copies of them go on getting what is mounted on the host, where a sandbox would see it.
    """

    def __init__(self, data: bytes) -> None:
        lines = data.splitlines()
        self.are_shared = any(_is_shared(line) for line in lines)
        fields = (line.split(b" ", 5) for line in lines)
        mounts = [Mounted(f[2], _plain(f[3]), _plain(f[4]), _kind(f[5])) for f in fields if len(f) > 5]
        # Later ones lie over earlier ones.
        self._at_place = {mount.place: mount for mount in mounts}
        self._of_device: dict[bytes, list[Mounted]] = {}
        for mount in mounts:
            self._of_device.setdefault(mount.device, []).append(mount)

    @property
    def places(self) -> frozenset[bytes]:
        """Return where something is mounted."""
        return frozenset(self._at_place)

    def is_local(self, path: bytes) -> bool:
        """Tell whether a path is on a file system that answers without a network or another process."""
        home = self._home_of(path)
        return home is not None and home.kind in _LOCAL

    def _home_of(self, path: bytes) -> Mounted | None:
        return next((self._at_place[p] for p in (path, *above(path)) if p in self._at_place), None)

    def aliases(self, path: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield pairs: a folder or a part of it, and a further path at which that may be seen.

        Args:
            path: resolved. What is yielded may be hidden by yet another mount.
        """
        home = self._home_of(path)
        if home is None:
            return
        inside = _join(home.root, _below(path, home.place))
        for mount in self._of_device[home.device]:
            if mount is home:
                continue
            if is_within(inside, (mount.root,)):
                yield path, _join(mount.place, _below(inside, mount.root))
            elif is_within(mount.root, (inside,)):
                yield _join(path, _below(mount.root, inside)), mount.place


def _kind(rest: bytes) -> bytes:
    """Return the type of a file system from the options of a mount and what follows them."""
    return rest.partition(b" - ")[2].partition(b" ")[0]


def _is_shared(line: bytes) -> bool:
    if b" shared:" not in line and b" master:" not in line:
        return False
    return not line.split(maxsplit=5)[4].startswith(_OWN)


def _below(path: bytes, folder: bytes) -> bytes:
    return path[len(folder.rstrip(b"/")) :]


def _join(folder: bytes, rest: bytes) -> bytes:
    return (folder.rstrip(b"/") + b"/" + rest.strip(b"/")).rstrip(b"/") or b"/"


def _plain(field: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)
