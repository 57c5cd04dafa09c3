"""Own what is told, and kept, of the sandbox around a command: what was applied, in plain values. Pure.

What a later life of the server needs to judge the command's end can be read back from it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any, Literal

from execzmq.sandbox.model import Access, Network, Permissions, View
from execzmq.sandbox.sight import Sight
from execzmq.types.params import Limits

AbstractSockets = Literal["own", "host"]
"""Abstract sockets that a command reaches: those made in its sandbox, or those of the host too."""


def applied_of(
    permissions: Permissions,
    view: View,
    *,
    kind: str,
    limits_enforced: Collection[str],
    abstract_sockets: AbstractSockets = "own",
) -> dict[str, Any]:
    """Return what the start reply and `ps` say.

    Args:
        kind: what enforces it.
        limits_enforced: names of the limits that hold here.
        abstract_sockets: which are reached.
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
        "network": {
            "mode": permissions.network.mode,
            "hosts": list(permissions.network.hosts),
            "abstract_sockets": abstract_sockets,
        },
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


def sight_from(applied: dict[str, Any]) -> Sight:
    """Return what a command sees, as far as that was told."""
    shown = [(os.fsencode(path), "write") for path in applied["roots"]]
    kept = [(os.path.join(root, name), "read") for root, _ in shown for name in _kept(applied)]
    readable = [(path, "read") for path in _paths(applied["readable"])]
    denied = [(path, "deny") for path in _paths(applied["denied"])]
    places: list[tuple[bytes, Access]] = [*shown, *readable, *kept, *denied]  # type: ignore[list-item]
    return Sight(applied["read"], tuple(sorted(places, key=lambda place: place[0].count(b"/"))))


def _kept(applied: dict[str, Any]) -> tuple[bytes, ...]:
    names = _paths(applied["protected"])
    return (*names, b".git") if applied["protect_git"] == "all" else names


def _texts(paths: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(path) for path in paths]


def _paths(texts: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(os.fsencode(text) for text in texts)
