"""Own the words in which a sandbox is described on its way from a profile to what enforces it. Pure.

A profile and a client's wish become `Permissions` (what one command may do, in names); these and the host's
file system become a `View` (what is mounted where, by descriptor); a view becomes a command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from execzmq.types.params import EnvPolicy, Limits, NetworkMode

Readable = Literal["host", "minimal"]
ProtectGit = Literal["all", "hooks-config", "none"]
Access = Literal["deny", "read", "write"]


@dataclass(slots=True, frozen=True)
class Network:
    """What a command may reach.

    Args:
        mode: `none` (its own loopback only), `proxy` (by name, what `hosts` allows), `internet` (all but this
            host's loopback) or `host` (the host's own network, loopback and abstract sockets included).
        hosts: with `proxy`: `NAME`, `NAME:PORT` or `*.NAME`; empty allows nothing.
    """

    mode: NetworkMode = "none"
    hosts: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Permissions:
    """What one command may do: a profile after the client's wish and the server's ceiling were applied.

    Paths are absolute, without NUL, and not yet resolved on the file system.

    Args:
        profile: name of the profile that was asked for.
        read: `host` is everything but `denied`, `minimal` is the system's programs and libraries.
        readable: read besides that; also what stays read-only inside of a root.
        writable: the roots.
        denied: neither read nor written.
        protected: names that stay as they are, or missing, in every root.
        protect_git: the same of `.git`: `all` of it, its hooks and configuration, or `none`.
        network: what it may reach.
        tmp_bytes: size of each of its own `/tmp`, `/var/tmp` and `/dev/shm`.
        limits: of its processes; `None` in a field = no limit.
        output_bytes: most of its output that is kept (its log budget); `None` = as for any process.
        require_limits: refuse to start where a limit cannot be enforced.
        allow_debug: let its processes trace each other.
        env_policy: makes the variables, unless the client's own policy says how.
        base_env_policies: applied first, one after the other, where the variables are the server's own and
            not the client's.
        write_within: each of `writable`, resolved, must lie within one of these, resolved; `None` = anywhere.
        read_within: the same of each of `readable`.
    """

    profile: str
    read: Readable
    readable: tuple[bytes, ...]
    writable: tuple[bytes, ...]
    denied: tuple[bytes, ...]
    protected: tuple[bytes, ...]
    protect_git: ProtectGit
    network: Network
    tmp_bytes: int
    limits: Limits
    output_bytes: int | None = None
    require_limits: bool = False
    allow_debug: bool = False
    env_policy: EnvPolicy | None = None
    base_env_policies: tuple[EnvPolicy, ...] = ()
    write_within: tuple[bytes, ...] | None = None
    read_within: tuple[bytes, ...] | None = None


class Mount(NamedTuple):
    """One place of the view.

    Attributes:
        path: where it is, absolute and resolved.
        access: `write` and `read` show what is there; `deny` covers it with an empty, closed place.
        is_dir: whether it is a folder.
        fd: descriptor (`O_PATH`) of what is shown; -1 = nothing is shown: a cover, or a name kept missing.
        is_missing: the host has nothing of this name, and the mount leaves an empty folder there; a file
            instead (not `is_dir`) must be made before.
        is_last: mounted after all others, so that nothing shows what it covers.
    """

    path: bytes
    access: Access
    is_dir: bool
    fd: int = -1
    is_missing: bool = False
    is_last: bool = False

    @property
    def shows(self) -> bool:
        """Tell whether the host's own is shown there, by a descriptor."""
        return self.access != "deny" and not self.is_missing


@dataclass(slots=True, eq=False)
class View:
    """What a command sees besides the base, in the order in which it is mounted; owns the descriptors.

    Args:
        mounts: outer before inner.
        roots: the writable roots as resolved.
        is_shared: what is mounted on the host later would be seen in it, were its mounts a plain copy.
    """

    mounts: tuple[Mount, ...]
    roots: tuple[bytes, ...]
    is_shared: bool = True

    def close(self) -> None:
        """Close every descriptor; idempotent."""
        mounts, self.mounts = self.mounts, ()
        for mount in mounts:
            if mount.fd >= 0:
                os.close(mount.fd)

    @property
    def descriptors(self) -> list[int]:
        """Return the descriptors of what is shown, in the order of the mounts."""
        return [mount.fd for mount in self.mounts if mount.fd >= 0]

    @property
    def placeholders(self) -> Iterable[bytes]:
        """Return the paths at which mounting leaves an empty folder on the host."""
        return [mount.path for mount in self.mounts if mount.is_missing]
