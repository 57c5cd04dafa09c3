"""Own how a client's wish, its profile and the server's ceiling become the permissions of one command. Pure.

No wish widens what the ceiling allows: of two levels of access the lower holds at every path, of two networks
the narrower, of two limits the smaller; what either denies or protects stays so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Final, NamedTuple, TypeVar, get_args

from execzmq.errors import InvalidRequest, PermissionRefused
from execzmq.sandbox.access import (
    Level,
    Reach,
    bounds_of,
    read_bounds,
    shared_bounds,
    wish_of,
    write_bounds,
)
from execzmq.sandbox.hosts import checked_hosts, shared_hosts
from execzmq.sandbox.model import Network, Permissions, ProtectGit, Readable
from execzmq.sandbox.profiles import (
    FULL_ACCESS,
    MINIMAL_HOME,
    PermissionProfile,
    checked_path,
    clean_path,
    find_profile,
    is_within,
)
from execzmq.types.params import EnvPolicy, Limits, NetworkMode, SandboxIntent

T = TypeVar("T")

MOST_ROOTS: Final = 256
_NETWORKS: tuple[NetworkMode, ...] = get_args(NetworkMode)
"""From the least to the most, as it is written."""
_GIT: tuple[ProtectGit, ...] = get_args(ProtectGit)
"""From the strictest on."""


class Place(NamedTuple):
    """Where a command is to run; `cwd` is its working directory, `home` that of the server's user."""

    cwd: bytes
    home: bytes


def permissions_for(
    intent: SandboxIntent | None,
    *,
    ceilings: Sequence[PermissionProfile],
    profiles: Mapping[str, PermissionProfile],
    place: Place,
    limits: Limits | None = None,
    log_budget: int | None = None,
) -> Permissions | None:
    """Return what a command may do, `None` where it is not confined.

    A wider profile than a ceiling is narrowed to it; `full-access` under a ceiling that confines is refused,
    since it means nothing but that, and so are roots that the client names and may not have. Without roots
    the working directory is the one where the profile and the ceilings allow that, unless it is `/`, the
    home, or above it.

    Args:
        intent: what the client says; `None` = the first ceiling's profile as it is.
        ceilings: all of them hold. The first is what a client gets by default: that of its share, where it
            has one, and else the server's.
        profiles: those that a client can name.
        limits: what the client sets.
        log_budget: bytes of output that the client asks to be kept.

    Raises:
        InvalidRequest: the profile is unknown; a root is relative, `/`, denied, or has a NUL; a host is none,
            or needs another network; `reason` says which.
        PermissionRefused: full access, or a root, beyond a ceiling; a host that is not in a list of the
            profile or a ceiling.
    """
    default = ceilings[0]
    intent = SandboxIntent(default.name) if intent is None else intent
    profile = default if intent.profile in ("", default.name) else find_profile(intent.profile, profiles)
    if not profile.is_confined:
        _check_unconfined(intent, ceilings)
        return None
    network = _wished_network(profile, intent)
    for one in ceilings:
        _check_hosts(network, intent, one)
    merged = reduce(narrowed, ceilings, replace(profile, network=network))
    bounded = replace(
        merged,
        limits=smaller_limits(merged.limits, limits or Limits()),
        output_bytes=_smaller(merged.output_bytes, log_budget),
    )
    most = reduce(Reach.narrowed, map(bounds_of, ceilings))
    reach = _with_roots(intent, profile, most, place).narrowed(most)
    return _permissions(profile, bounded, reach, ceilings, place)


def _permissions(
    profile: PermissionProfile,
    merged: PermissionProfile,
    reach: Reach,
    ceilings: Sequence[PermissionProfile],
    place: Place,
) -> Permissions:
    """Return what is left of a profile: its `merged` one in all but paths and variables, and its reach."""
    lists = reach.lists(merged.read)
    return Permissions(
        profile=profile.name,
        read=merged.read,
        readable=lists[Level.READ],
        writable=lists[Level.WRITE],
        denied=lists[Level.DENY],
        protected=tuple(os.fsencode(name) for name in merged.protected),
        protect_git=merged.protect_git,
        network=merged.network,
        tmp_bytes=merged.tmp_bytes,
        limits=merged.limits,
        output_bytes=merged.output_bytes,
        require_limits=merged.require_limits,
        allow_debug=merged.allow_debug,
        env_policy=_with_home(profile.env_policy, merged.read, lists, place.home),
        base_env_policies=tuple(one.env_policy for one in ceilings if one.is_confined),
        write_within=reduce(shared_bounds, map(write_bounds, (profile, *ceilings))),
        read_within=reduce(shared_bounds, map(read_bounds, ceilings)),
    )


def narrowed(profile: PermissionProfile, ceiling: PermissionProfile) -> PermissionProfile:
    """Return a profile with all but its paths narrowed to the ceiling; that of the variables stays."""
    if not ceiling.is_confined:
        return profile
    read: Readable = "minimal" if "minimal" in (profile.read, ceiling.read) else "host"
    return replace(
        profile,
        read=read,
        protected=tuple(dict.fromkeys((*ceiling.protected, *profile.protected))),
        protect_git=_GIT[min(_GIT.index(profile.protect_git), _GIT.index(ceiling.protect_git))],
        network=narrower_network(profile.network, ceiling.network),
        tmp_bytes=min(profile.tmp_bytes, ceiling.tmp_bytes),
        limits=smaller_limits(profile.limits, ceiling.limits),
        output_bytes=_smaller(profile.output_bytes, ceiling.output_bytes),
        require_limits=profile.require_limits or ceiling.require_limits,
        allow_debug=profile.allow_debug and ceiling.allow_debug,
    )


def narrower_network(left: Network, right: Network) -> Network:
    """Return the network of which both reach all."""
    mode = _NETWORKS[min(_NETWORKS.index(left.mode), _NETWORKS.index(right.mode))]
    if mode != "proxy":
        return Network(mode)
    if left.mode == right.mode:
        return Network(mode, shared_hosts(left.hosts, right.hosts))
    return left if left.mode == mode else right


def smaller_limits(left: Limits, right: Limits) -> Limits:
    """Return of each limit the smaller."""
    return Limits(
        **{one.name: _smaller(getattr(left, one.name), getattr(right, one.name)) for one in fields(Limits)}
    )


def _check_unconfined(intent: SandboxIntent, ceilings: Sequence[PermissionProfile]) -> None:
    if confining := [one.name for one in ceilings if one.is_confined]:
        message = f"this server confines every command: leave {FULL_ACCESS} out, or name {confining[0]}"
        raise PermissionRefused(message, reason="profile_not_permitted", profile=FULL_ACCESS)
    if not intent.profile:
        message = "roots, network and hosts need a sandbox: name its profile (--sandbox, in Python sandbox=)"
        raise InvalidRequest(message, reason="not_confined", profile=FULL_ACCESS)
    if intent.network not in (None, "host") or intent.allowed_hosts is not None:
        message = f"{FULL_ACCESS} confines nothing: leave network and hosts out, or name another profile"
        raise InvalidRequest(message, reason="not_confined", profile=FULL_ACCESS)


def _wished_network(profile: PermissionProfile, intent: SandboxIntent) -> Network:
    if intent.allowed_hosts is None:
        if intent.network in (None, profile.network.mode):
            return profile.network
        return Network(intent.network)
    mode = intent.network or "proxy"
    if mode != "proxy":
        message = f"allowed hosts need the network proxy, not {mode}: leave one of the two out"
        raise InvalidRequest(message, reason="bad_network", network=mode)
    wished = Network("proxy", checked_hosts(intent.allowed_hosts))
    _check_hosts(wished, intent, profile)
    return narrower_network(wished, profile.network) if profile.network.mode == "proxy" else wished


def _check_hosts(wished: Network, intent: SandboxIntent, most: PermissionProfile) -> None:
    """Refuse a host that the client names where a list has nothing of it: of lists, it can only choose."""
    if intent.allowed_hosts is None or not most.is_confined or most.network.mode != "proxy":
        return
    for host in wished.hosts:
        if not shared_hosts((host,), most.network.hosts):
            listed = ", ".join(most.network.hosts) or "none"
            message = f"the host {host!r} is not among those that the profile {most.name} allows ({listed})"
            remedy = "leave it out, or have it listed: allowed_hosts of a profile, --allow-host of a share"
            raise PermissionRefused(f"{message}: {remedy}", reason="host_not_permitted", host=host)


def _with_roots(intent: SandboxIntent, profile: PermissionProfile, most: Reach, place: Place) -> Reach:
    """Return what the profile gives, with the roots that the client names, or else its working directory."""
    reach, own = wish_of(profile), bounds_of(profile)
    if len(intent.workspace_roots) > MOST_ROOTS:
        message = f"no more than {MOST_ROOTS} roots are allowed: name a folder that holds several"
        raise InvalidRequest(message, reason="too_many_roots", value=len(intent.workspace_roots))
    for root in _checked_roots(intent.workspace_roots):
        level = _level_of(root, own, most, writes=profile.workspaces != () or profile.writable != ())
        reach = reach.adding((root,), level)
    if not intent.workspace_roots:
        cwd = _implicit_root(place)
        if cwd is not None and min(own.at(cwd), most.at(cwd)) is Level.WRITE:
            reach = reach.adding((cwd,), Level.WRITE)
    return reach


def _checked_roots(roots: Iterable[bytes]) -> Iterable[bytes]:
    return dict.fromkeys(checked_path(root, "the root") for root in roots)


def _level_of(root: bytes, own: Reach, most: Reach, *, writes: bool) -> Level:
    """Return what a root that the client names is: writable, or readable where the profile writes nothing."""
    wanted = Level.WRITE if writes else Level.READ
    shown = root.decode("utf-8", "backslashreplace")
    if Level.DENY in (own.at(root), most.at(root)):
        message = f"the root {shown!r} is denied by the profile: name another folder"
        raise InvalidRequest(message, reason="root_denied", root=shown)
    if most.at(root) < wanted or (writes and own.at(root) < wanted):
        message = f"the root {shown!r} is not among those that may be {'written' if writes else 'read'}"
        raise PermissionRefused(f"{message}: see `execzmq profiles`", reason="root_not_permitted", root=shown)
    return wanted


def _implicit_root(place: Place) -> bytes | None:
    """Return the working directory, unless it is so wide that nobody means all of it by standing there."""
    if not place.cwd.startswith(b"/") or b"\0" in place.cwd:
        return None
    cwd = clean_path(place.cwd)
    return None if cwd == b"/" or is_within(place.home, (cwd,)) else cwd


def _with_home(
    policy: EnvPolicy, read: Readable, lists: Mapping[Level, tuple[bytes, ...]], home: bytes
) -> EnvPolicy:
    """Return the policy with a `HOME` that can be seen."""
    is_seen = read == "host" or is_within(home, (*lists[Level.READ], *lists[Level.WRITE]))
    if is_seen or b"HOME" in policy.set:
        return policy
    return replace(policy, set={b"HOME": MINIMAL_HOME, **policy.set})


def _smaller(left: int | None, right: int | None) -> int | None:
    return min(left, right) if left is not None and right is not None else left if right is None else right
