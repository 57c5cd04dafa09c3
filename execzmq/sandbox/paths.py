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
from execzmq.sandbox.planning import Plan, plan_of, wish_of


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
        OSError: the disk cannot be looked at now.
    """
    return opened(plan_of(wish_of(permissions, server_dirs), Disk(placeholders)))


def opened(plan: Plan) -> View:
    """Return a planned view with its descriptors; the caller closes it.

    Raises:
        InvalidRequest: something has been replaced meanwhile. OSError: there is no descriptor.
    """
    with contextlib.ExitStack() as undoing:
        mounts = tuple(_with_descriptor(mount, undoing) if mount.shows else mount for mount in plan.mounts)
        undoing.pop_all()
    return View(mounts, plan.roots, plan.is_shared)


def check_opened(view: View) -> None:
    """Check that what was opened is still there.

    Raises:
        InvalidRequest: something has been replaced meanwhile.
    """
    for mount in view.mounts:
        if mount.fd >= 0:
            places.check_at(mount.fd, mount.path)


def _with_descriptor(mount: Mount, undoing: contextlib.ExitStack) -> Mount:
    fd = places.open_path(mount.path, is_dir=mount.is_dir)
    undoing.callback(os.close, fd)
    return mount._replace(fd=fd)
