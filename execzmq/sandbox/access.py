"""Own what a profile and a client's roots say of each path, and what is left where two of them speak. Pure.

Each is a list of places; the deepest that holds a path decides about it, at the same place the strictest.
All is by name alone: what symbolic links make of it is for whoever resolves the paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from execzmq.sandbox.layers import OWN_FOLDERS
from execzmq.sandbox.model import Readable
from execzmq.sandbox.profiles import PermissionProfile, is_within


class Level(IntEnum):
    """What may be done at a place, from the least to the most."""

    DENY = 0
    UNSEEN = 1
    READ = 2
    WRITE = 3


@dataclass(slots=True, frozen=True)
class Reach:
    """What may be done where.

    Args:
        places: level of each place and of all below it, up to the next place.
        default: level of what lies in no place; `UNSEEN` has the system's programs all the same.
    """

    default: Level
    places: Mapping[bytes, Level] = field(default_factory=dict)

    def at(self, path: bytes) -> Level:
        """Return the level of a path."""
        while path not in self.places:
            parent = os.path.dirname(path)
            if parent == path:
                return self.default
            path = parent
        return self.places[path]

    def adding(self, paths: Iterable[bytes], level: Level) -> Reach:
        """Return the same with further places; a stricter level that one has stays."""
        places = dict(self.places)
        for path in paths:
            places[path] = min(level, places.get(path, level))
        return Reach(self.default, places)

    def narrowed(self, other: Reach) -> Reach:
        """Return what both allow, at every path."""
        places = {path: min(self.at(path), other.at(path)) for path in (*self.places, *other.places)}
        return Reach(min(self.default, other.default), places)

    def lists(self, read: Readable) -> dict[Level, tuple[bytes, ...]]:
        """Return the places of each level, outer before inner; without those that say nothing.

        Args:
            read: what is read where there is no place.
        """
        kept: dict[bytes, Level] = {}
        for path in sorted(self.places):
            level = self.places[path]
            # What lies in a folder that the command has for itself is not read unless it is named.
            says_nothing = (
                read == "host" and level is Level.READ and not _is_inside(path, (*kept, *OWN_FOLDERS))
            )
            if level is not Level.UNSEEN and not says_nothing:
                kept[path] = level
        return {wanted: tuple(path for path, level in kept.items() if level is wanted) for wanted in Level}


def _is_inside(path: bytes, places: Iterable[bytes]) -> bool:
    return any(is_within(path, (place,)) for place in places)


def wish_of(profile: PermissionProfile) -> Reach:
    """Return what a command gets from its profile, still without the client's roots."""
    default = Level.READ if profile.read == "host" else Level.UNSEEN
    return (
        Reach(default)
        .adding(profile.writable, Level.WRITE)
        .adding(profile.readable, Level.READ)
        .adding(profile.denied, Level.DENY)
    )


def bounds_of(profile: PermissionProfile) -> Reach:
    """Return the most that a command can get under a profile, whatever a client names as roots."""
    if not profile.is_confined:
        return Reach(Level.WRITE)
    wish = wish_of(profile)
    if profile.workspaces == "any":
        return Reach(Level.WRITE, wish.places)
    bounds = wish.adding(profile.workspaces, Level.WRITE)
    # A client that could name them would see what the profile does not show: sockets among it, and who sees
    # one can connect to it.
    own = (path for path in OWN_FOLDERS if path not in bounds.places)
    return bounds.adding(own, Level.UNSEEN)


def write_bounds(profile: PermissionProfile) -> tuple[bytes, ...] | None:
    """Return the folders outside of which nothing is written, `None` where there is no such bound."""
    if not profile.is_confined or profile.workspaces == "any":
        return None
    return (*profile.writable, *profile.workspaces)


def read_bounds(profile: PermissionProfile) -> tuple[bytes, ...] | None:
    """Return the folders outside of which nothing is shown besides what is read anyway; `None`: no bound."""
    writes = write_bounds(profile)
    return None if writes is None else (*writes, *profile.readable)


def shared_bounds(
    left: tuple[bytes, ...] | None, right: tuple[bytes, ...] | None
) -> tuple[bytes, ...] | None:
    """Return the bounds that hold where both do."""
    if left is None or right is None:
        return right if left is None else left
    inner = (one for one in left if is_within(one, right)), (one for one in right if is_within(one, left))
    return tuple(dict.fromkeys(path for some in inner for path in some))
