"""Own the sandbox that is tried before the first real one: made as a start makes it, in its own folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace

from execzmq.sandbox import bwrap, seccomp
from execzmq.sandbox.host import Host
from execzmq.sandbox.narrowing import Place, permissions_for
from execzmq.sandbox.paths import view_of
from execzmq.sandbox.probe import Attempt
from execzmq.sandbox.profiles import builtin_profiles
from execzmq.types.params import SandboxIntent

_PROFILE = "workspace-write"
_ENV = {b"PATH": b"/usr/local/bin:/usr/bin:/bin"}


@contextlib.contextmanager
def attempt(hidden: Sequence[bytes], host: Host, home: bytes) -> Iterator[Attempt]:
    """Give what a start with the profile `workspace-write` hands over; at its end nothing is left.

    Raises:
        SandboxUnavailable: there is no filter for this machine. OSError: there is no room.
    """
    with tempfile.TemporaryDirectory(prefix="execzmq-try-") as folder:
        root = os.path.realpath(os.fsencode(folder))
        profiles = builtin_profiles(home)
        found = permissions_for(
            SandboxIntent(_PROFILE, (root,)),
            ceiling=profiles[_PROFILE],
            profiles=profiles,
            place=Place(root, home),
        )
        assert found is not None  # this profile confines
        permissions = replace(found, protected=(), protect_git="none")  # which would leave folders behind
        view = view_of(permissions, server_dirs=hidden)
        try:
            numbers = tuple(mount.fd for mount in view.mounts if mount.fd >= 0)
            arguments = bwrap.arguments(permissions, view, numbers, host=host, env=_ENV, cwd=root, tty=False)
            yield Attempt(bwrap.encoded(arguments), seccomp.program(allow_debug=False), numbers)
        finally:
            view.close()
