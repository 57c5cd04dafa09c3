"""Own the way from permissions to a view: it is planned, and what is planned is opened.

Not contained by any view: a file in a root that has a second name (hard link) outside is the same file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence

from execzmq.sandbox import places
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.model import Mount, Permissions, View
from execzmq.sandbox.planning import wish_of
from execzmq.sandbox.plans import Plans


def view_of(
    permissions: Permissions,
    *,
    server_dirs: Sequence[bytes],
    own_code: Sequence[bytes] = (),
    placeholders: Collection[bytes] = (),
    plans: Plans | None = None,
) -> View:
    """Return what a command with these permissions sees; the caller closes it.

    Args:
        permissions: what it may do.
        server_dirs: folders and files of the server's own, which no command sees.
        own_code: what the next server will execute: it stays as it is where a root holds it.
        placeholders: paths whose empty folder was left by another sandbox: they count as missing.
        plans: those of earlier calls; `None` = there are none.

    Raises:
        InvalidRequest: a path is refused; `reason` and `path` say why and which.
        LimitExceeded: that would be too many mounts.
        SandboxUnavailable: a file of the server's own has a second name, by which it could be read.
        OSError: the disk cannot be looked at now.
    """
    wish = wish_of(permissions, server_dirs, own_code)
    plan = (plans or Plans()).get(wish, Disk(placeholders))
    return View(_opened(plan.mounts), plan.roots, plan.is_shared)


def _opened(planned: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return the mounts with their descriptors."""
    with contextlib.ExitStack() as opened:
        mounts = tuple(_with_descriptor(mount, opened) if mount.shows else mount for mount in planned)
        opened.pop_all()
    return mounts


def _with_descriptor(mount: Mount, opened: contextlib.ExitStack) -> Mount:
    fd = places.open_path(mount.path, is_dir=mount.is_dir)
    opened.callback(os.close, fd)
    return mount._replace(fd=fd)
