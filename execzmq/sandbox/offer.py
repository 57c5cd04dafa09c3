"""Own what a server offers: its default profile, which is its ceiling too, and the profiles to be named.

Reads the file of profiles through its store; decides nothing that `narrowing` does not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from execzmq.errors import InvalidRequest
from execzmq.sandbox.ceilings import share_ceiling
from execzmq.sandbox.model import Permissions
from execzmq.sandbox.narrowing import Place, permissions_for
from execzmq.sandbox.profile_store import ProfileStore
from execzmq.sandbox.profiles import WORKSPACE_WRITE, PermissionProfile, field_with
from execzmq.types.finding import Finding
from execzmq.types.params import ExecParams, Limits, SandboxIntent
from execzmq.types.results import ProfileInfo

_MOST_GIVEN = 256
"""Answers that are kept; with one more all are made anew."""


class _Asked(NamedTuple):
    """What a start's permissions depend on, besides the profiles that it can name."""

    intent: SandboxIntent | None
    share: SandboxIntent | None
    cwd: bytes
    limits: Limits | None
    log_budget: int | None


class _Given(NamedTuple):
    profiles: Mapping[str, PermissionProfile]
    ceilings: tuple[PermissionProfile, ...]
    permissions: Permissions | None


class Offer:
    """The profiles of one server; the default one stays as it was when the server began.

    Args:
        default: name of the profile of a start that names none.
        store: where profiles are found; `None` = the user's own file.

    Raises:
        InvalidRequest: there is no such profile, or the file is wrong.
    """

    def __init__(self, default: str, store: ProfileStore | None = None) -> None:
        self._store = ProfileStore() if store is None else store
        self.ceiling = self._store.get(default)
        self._default = {self.ceiling.name: self.ceiling}
        self._given: dict[_Asked, _Given] = {}

    @property
    def home(self) -> bytes:
        """Return the home of the server's user."""
        return self._store.home

    def permissions(
        self, params: ExecParams, cwd: bytes, share: SandboxIntent | None = None
    ) -> Permissions | None:
        """Return what a start may do, `None` where it is not confined.

        Args:
            cwd: where it will run.
            share: the most that whoever asks may have; `None` = as much as the server gives.

        Raises:
            InvalidRequest, PermissionRefused: as `permissions_for`; the file of profiles is wrong.
        """
        profiles = self._named(params.sandbox)
        ceilings = self._ceilings(share)
        asked = _Asked(params.sandbox, share, cwd, params.limits, params.log_budget)
        given = self._given.get(asked)
        if given is None or given.profiles is not profiles or given.ceilings != ceilings:
            given = _Given(profiles, ceilings, self._permissions(asked, profiles, ceilings))
            if len(self._given) >= _MOST_GIVEN:
                self._given.clear()
            self._given[asked] = given
        return given.permissions

    def _permissions(
        self,
        asked: _Asked,
        profiles: Mapping[str, PermissionProfile],
        ceilings: tuple[PermissionProfile, ...],
    ) -> Permissions | None:
        return permissions_for(
            asked.intent,
            ceilings=ceilings,
            profiles=profiles,
            place=Place(asked.cwd, self._store.home),
            limits=asked.limits,
            log_budget=asked.log_budget,
        )

    def describe(self, share: SandboxIntent | None = None) -> list[ProfileInfo]:
        """Describe every profile, the built-in ones first; that of a share as it is for its holder.

        Raises:
            InvalidRequest: the file of profiles is wrong.
        """
        default, *_ = self._ceilings(share)
        profiles = {**self._store.all(), self.ceiling.name: self.ceiling, default.name: default}
        return [
            ProfileInfo(one.name, one.description, one.name == default.name, fields_of(one))
            for one in profiles.values()
        ]

    def finding(self) -> Finding:
        """Tell what the doctor says of the file of profiles."""
        return self._store.finding()

    def share_ceiling(self, wish: SandboxIntent) -> PermissionProfile:
        """Return the most that commands of a share may do, but for what the server's own ceiling forbids.

        Raises:
            InvalidRequest: the profile is unknown or confines nothing, or a root or host cannot be one.
        """
        return share_ceiling(wish, self._store.get(wish.profile), self._store.builtin[WORKSPACE_WRITE])

    def explained(self, error: InvalidRequest, name: str) -> InvalidRequest:
        """Return an error that is about a path, with the field of the profile in which that stands, if any.

        Args:
            name: of the profile.
        """
        profile = self._default.get(name) or self._store.get(name)
        field = field_with(profile, os.fsencode(error.details.get("path", "")))
        if not field:
            return error
        details = {**error.details, "profile": name, "field": field}
        return InvalidRequest(f"profile {name}, {field}: {error.message}", **details)

    def _ceilings(self, share: SandboxIntent | None) -> tuple[PermissionProfile, ...]:
        return (self.ceiling,) if share is None else (self.share_ceiling(share), self.ceiling)

    def _named(self, intent: SandboxIntent | None) -> Mapping[str, PermissionProfile]:
        """Return the profile that is named, without a look at the file where it need not be looked at."""
        if intent is None or intent.profile in ("", self.ceiling.name):
            return self._default
        if intent.profile in self._store.builtin:
            return self._store.builtin
        return self._store.all()


def fields_of(profile: PermissionProfile) -> dict[str, Any]:
    """Return what a profile says, by the names of its file; of the variables that it sets the names alone."""
    if not profile.is_confined:
        return {"confined": False}
    policy = profile.env_policy
    return {
        "confined": True,
        "readable": [profile.read, *profile.readable],
        "writable": list(profile.writable),
        "workspaces": ["any"] if profile.workspaces == "any" else list(profile.workspaces),
        "denied": list(profile.denied),
        "protected": list(profile.protected),
        "protect_git": profile.protect_git,
        "network": profile.network.mode,
        "allowed_hosts": list(profile.network.hosts),
        "tmp": profile.tmp_bytes,
        "limits": {**asdict(profile.limits), "output": profile.output_bytes},
        "require_limits": profile.require_limits,
        "allow_debug": profile.allow_debug,
        "env": {
            "inherit": policy.inherit,
            "exclude": list(policy.exclude),
            "set": list(policy.set),
            "include_only": list(policy.include_only),
        },
    }
