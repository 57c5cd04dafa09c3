"""Own what a permission profile is, the built-in ones, and how a profile is found by its name. Pure.

Paths are absolute bytes; what `~` is has been put in. Knows no file and no client's wish.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from execzmq.errors import InvalidRequest
from execzmq.sandbox.model import Network, ProtectGit, Readable
from execzmq.settings import GIB
from execzmq.types.params import SECRET_NAMES, EnvPolicy, Limits

FULL_ACCESS = "full-access"
"""Name of the profile that does not confine at all."""

WORKSPACE_WRITE = "workspace-write"
"""Name of the widest of the built-in profiles that confine."""

PROTECTED_NAMES = (".execzmq", ".codex", ".agents", ".vscode", ".idea")
"""What other programs take orders from; `.git` is protected by `protect_git`."""

SECRET_PATHS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
)
"""What of a home is denied unless a profile lifts it."""

LEADING_NAMES = (
    "*PASSW*",
    "*AUTH*",
    "*SESSION*",
    "LD_*",
    "DYLD_*",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "BASH_ENV",
    "ENV",
    "PERL5*",
    "RUBYOPT",
    "GIT_CONFIG*",
    "GIT_SSH*",
    "SSH_AUTH_SOCK",
    "DBUS_*",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "KUBECONFIG",
    "EXECZMQ_*",
)
"""Variables that a sandboxed command does not get besides those of `SECRET_NAMES`: they lead to code of
others, or to what acts for the user outside of the sandbox."""

TEMPORARY = {
    b"TMPDIR": b"/tmp",
    b"GOCACHE": b"/tmp/go-cache",
    b"JUPYTER_RUNTIME_DIR": b"/tmp/jupyter",
    b"UV_CACHE_DIR": b"/tmp/uv-cache",
    b"npm_config_cache": b"/tmp/npm-cache",
}
"""Where programs write that fail if they cannot: by default in the home, which is read-only. Other caches
stay where they are, since they are of use also when they can only be read."""

_CORE_ENV = EnvPolicy(inherit="core", exclude=(*SECRET_NAMES, *LEADING_NAMES, "TEMP", "TMP"), set=TEMPORARY)

MINIMAL_HOME = b"/tmp"
"""What `HOME` is where the real one cannot be seen."""

Workspaces = tuple[bytes, ...] | Literal["any"]


@dataclass(slots=True, frozen=True)
class PermissionProfile:
    """What commands may do, under a name.

    Args:
        name: `[A-Za-z0-9_-]{1,64}`.
        description: one line for people.
        is_confined: false for `full-access` alone, which has no other meaning.
        read: `host` is everything but `denied`, `minimal` the system's programs and libraries.
        readable: read besides that; inside of a writable place it stays read-only.
        writable: written in any case.
        workspaces: where a client's roots may lie to be written: below these folders, or anywhere (`any`).
        denied: neither read nor written.
        protected: names that stay as they are, or missing, in every root.
        protect_git: the same of `.git`: `all` of it, its hooks and configuration, or `none`.
        network: what may be reached.
        tmp_bytes: size of each of its own `/tmp`, `/var/tmp` and `/dev/shm`.
        limits: of each process, of all together where there is a cgroup; `None` in a field = no limit.
        output_bytes: most output that is kept (the log budget); `None` = as for any process.
        require_limits: refuse to start where a limit cannot be enforced.
        allow_debug: let its processes trace each other.
        env_policy: makes the variables from those of the caller or the server.
    """

    name: str
    description: str = ""
    is_confined: bool = True
    read: Readable = "host"
    readable: tuple[bytes, ...] = ()
    writable: tuple[bytes, ...] = ()
    workspaces: Workspaces = ()
    denied: tuple[bytes, ...] = ()
    protected: tuple[str, ...] = PROTECTED_NAMES
    protect_git: ProtectGit = "all"
    network: Network = field(default_factory=Network)
    tmp_bytes: int = GIB
    limits: Limits = field(default_factory=Limits)
    output_bytes: int | None = None
    require_limits: bool = False
    allow_debug: bool = False
    env_policy: EnvPolicy = _CORE_ENV


def builtin_profiles(*homes: bytes) -> dict[str, PermissionProfile]:
    """Return the built-in profiles of a user, by name; the secrets of each of the homes are denied.

    No limit is set by default: what is too much depends on the command, and a limit that strikes by surprise
    looks like a fault. Core dumps alone are off in every sandbox, whatever its profile.
    """
    read_only = PermissionProfile(
        "read-only",
        "reads what you can read but for secrets; writes to its own /tmp; no network",
        denied=tuple(os.path.join(home, os.fsencode(name)) for home in homes for name in SECRET_PATHS),
    )
    workspace_write = replace(
        read_only,
        name=WORKSPACE_WRITE,
        description="as read-only, and writes to its roots, but not to .git and tools' settings in them",
        workspaces="any",
    )
    full_access = PermissionProfile(FULL_ACCESS, "not confined: all that you can do", is_confined=False)
    return {one.name: one for one in (read_only, workspace_write, full_access)}


def find_profile(name: str, profiles: Mapping[str, PermissionProfile]) -> PermissionProfile:
    """Return the profile of that name.

    Raises:
        InvalidRequest: there is none; it names those that there are (reason `unknown_profile`).
    """
    profile = profiles.get(name)
    if profile is None:
        there_are = ", ".join(profiles)
        message = f"no permission profile {name[:64]!r}; there are {there_are}"
        raise InvalidRequest(message, reason="unknown_profile", profile=name[:64], profiles=list(profiles))
    return profile


def field_with(profile: PermissionProfile, path: bytes) -> str:
    """Return the field of a profile that shows a path; empty where none does."""
    fields = {"writable": profile.writable, "readable": profile.readable}
    return next((name for name, paths in fields.items() if path in map(clean_path, paths)), "")


def is_within(path: bytes, folders: Iterable[bytes]) -> bool:
    """Tell whether a path is one of the folders or lies below one, by its name alone."""
    return any(path == folder or path.startswith(folder.rstrip(b"/") + b"/") for folder in folders)


def checked_path(path: bytes, what: str) -> bytes:
    """Return an absolute path without `.`, `..` and doubled slashes.

    Raises:
        InvalidRequest: it is relative, has a NUL, or is `/`; reason `bad_path`.
    """
    shown = path.decode("utf-8", "backslashreplace")
    if b"\0" in path or not path.startswith(b"/"):
        fault = "has a NUL in it" if b"\0" in path else "is relative: give an absolute path"
        raise InvalidRequest(f"{what} {shown[:300]!r} {fault}", reason="bad_path", path=shown)
    clean = clean_path(path)
    if clean == b"/":
        raise InvalidRequest(f"{what} must be a folder below /, not / itself", reason="bad_path", path=shown)
    return clean


def clean_path(path: bytes) -> bytes:
    """Return an absolute path without `.`, `..` and doubled slashes, by its name alone."""
    return b"/" + os.path.normpath(path).lstrip(b"/")
