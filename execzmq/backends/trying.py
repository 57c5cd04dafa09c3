"""Own the sandbox that is tried before the first real one: made as a start makes it, in its own folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from execzmq.backends import doctor, internet
from execzmq.connection import hidden_folders
from execzmq.sandbox import bwrap, seccomp
from execzmq.sandbox.host import Host, look_up
from execzmq.sandbox.narrowing import Place, permissions_for
from execzmq.sandbox.paths import view_of
from execzmq.sandbox.probe import Attempt, Probe
from execzmq.sandbox.profile_store import ProfileStore, profiles_path
from execzmq.sandbox.profiles import builtin_profiles
from execzmq.types.finding import Finding
from execzmq.types.params import SandboxIntent

_SECRETS = ("connection.json", "key")
_PROFILE = "workspace-write"
_ENV = {b"PATH": b"/usr/local/bin:/usr/bin:/bin"}


def hidden_from_sandboxes(folder: Path) -> list[bytes]:
    """Return what no sandbox of the server with this state folder sees."""
    return [os.fsencode(path) for path in (folder, *hidden_folders(), profiles_path().parent)]


def probe_of(folder: Path, home: bytes, host: Callable[[], Host]) -> Probe:
    """Return what tells whether sandboxes can be enforced here.

    Args:
        folder: the server's state folder.
        home: of the server's user.
        host: looks at this machine.
    """
    secrets = [os.fsencode(folder / name) for name in _SECRETS if (folder / name).exists()]
    return Probe(lambda: attempt(hidden_from_sandboxes(folder), host(), home), secrets)


def findings(folder: Path) -> list[Finding]:
    """Look, without a server, whether one could make sandboxes; takes some seconds at most."""
    is_root = os.geteuid() == 0
    store = ProfileStore()
    probe = probe_of(folder, store.home, lambda: look_up(is_root=is_root))
    further = (internet.finding(), store.finding(), doctor.landlock_finding(), doctor.mounts_finding())
    return [*probe.look().findings, *further]


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
            ceilings=(profiles[_PROFILE],),
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
