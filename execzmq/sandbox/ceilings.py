"""Own the most that commands of a share may do: a profile, with the roots and the network it names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from execzmq.errors import InvalidRequest
from execzmq.sandbox.access import Level, bounds_of
from execzmq.sandbox.hosts import checked_hosts
from execzmq.sandbox.model import Network
from execzmq.sandbox.narrowing import narrowed
from execzmq.sandbox.profiles import PermissionProfile, checked_path, is_within
from execzmq.types.params import SandboxIntent


def share_ceiling(
    wish: SandboxIntent, profile: PermissionProfile, most: PermissionProfile
) -> PermissionProfile:
    """Return the profile that no command of a share goes beyond, and that it gets without a wish of its own.

    Args:
        wish: names the profile, the roots and the network of the share.
        profile: the one that it names.
        most: what no share may pass, but for the network: `workspace-write`.

    Raises:
        InvalidRequest: the profile confines nothing; a root is relative, `/`, has a NUL, or cannot be written
            under it; a host is none.
    """
    if not profile.is_confined:
        message = f"a share needs a profile that confines, and {profile.name} does not: name {most.name}"
        raise InvalidRequest(message, reason="not_confined", profile=profile.name)
    roots = tuple(_checked_roots(wish, profile, most))
    mode = wish.network or "none"
    return replace(
        narrowed(profile, most),
        readable=tuple(path for path in profile.readable if not is_within(path, most.denied)),
        writable=tuple(
            path for path in profile.writable if is_within(path, roots) and not is_within(path, most.denied)
        ),
        workspaces=roots,
        denied=tuple(dict.fromkeys((*most.denied, *profile.denied))),
        network=Network(mode, checked_hosts(wish.allowed_hosts or ()) if mode == "proxy" else ()),
    )


def _checked_roots(
    wish: SandboxIntent, profile: PermissionProfile, most: PermissionProfile
) -> Iterator[bytes]:
    bounds = bounds_of(profile).narrowed(bounds_of(most))
    for root in dict.fromkeys(checked_path(root, "the root") for root in wish.workspace_roots):
        if bounds.at(root) is not Level.WRITE:
            shown = root.decode("utf-8", "backslashreplace")
            message = f"the root {shown!r} cannot be written under {profile.name}: name another, or none"
            raise InvalidRequest(message, reason="root_not_permitted", root=shown)
        yield root
