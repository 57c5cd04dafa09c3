"""Own what is told, and kept, of the sandbox around a command: what was applied, in plain values. Pure.

What a later life of the server needs to judge the command's end can be read back from it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

from execzmq.sandbox.model import Network, Permissions, View
from execzmq.types.params import Limits


def applied_of(
    permissions: Permissions, view: View, *, kind: str, limits_enforced: Collection[str]
) -> dict[str, Any]:
    """Return what the start reply and `ps` say.

    Args:
        kind: what enforces it.
        limits_enforced: names of the limits that hold here.
    """
    limits = {one.name: getattr(permissions.limits, one.name) for one in fields(Limits)}
    return {
        "type": kind,
        "profile": permissions.profile,
        "read": permissions.read,
        "roots": _texts(view.roots),
        "readable": _texts(permissions.readable),
        "denied": _texts(permissions.denied),
        "protected": _texts(permissions.protected),
        "protect_git": permissions.protect_git,
        "network": {"mode": permissions.network.mode, "hosts": list(permissions.network.hosts)},
        "tmp_bytes": permissions.tmp_bytes,
        "limits": {name: value for name, value in limits.items() if value is not None},
        "limits_enforced": sorted(limits_enforced),
        "allow_debug": permissions.allow_debug,
    }


def permissions_from(applied: dict[str, Any]) -> Permissions:
    """Return the permissions that `applied_of` described, its roots resolved."""
    return Permissions(
        profile=applied["profile"],
        read=applied["read"],
        readable=_paths(applied["readable"]),
        writable=_paths(applied["roots"]),
        denied=_paths(applied["denied"]),
        protected=_paths(applied["protected"]),
        protect_git=applied["protect_git"],
        network=Network(applied["network"]["mode"], tuple(applied["network"]["hosts"])),
        tmp_bytes=applied["tmp_bytes"],
        limits=Limits(**applied["limits"]),
        allow_debug=applied["allow_debug"],
    )


def _texts(paths: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(path) for path in paths]


def _paths(texts: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(os.fsencode(text) for text in texts)
