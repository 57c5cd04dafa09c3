"""Own the keywords of `share` and how they become terms; pure: what is the caller's own is passed in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, get_args

from execzmq.client.arguments import (
    Caller,
    Word,
    identifier,
    one_of,
    refuse_unknown,
    sandbox_intent,
    seconds,
)
from execzmq.errors import InvalidRequest
from execzmq.types.params import NetworkMode
from execzmq.types.sharing import DAY, Role, ShareTerms


class ShareOptions(TypedDict, total=False):
    """Keywords of `share`.

    Args:
        role: `observer` watches `processes` and nothing else; `operator` starts sandboxed commands too, and
            acts on those and on `processes`; `owner` may all that you may.
        processes: ids, or names of processes that there are.
        expires: seconds until it ends, at most 366 days.
        sandbox: of an operator, the permission profile that its commands cannot go beyond; `None` =
            `workspace-write`.
        workspace_roots: folders, on the server's machine, that they may write to; none unless named.
        network: what they may reach, as for `start`; nothing unless named.
        allowed_hosts: what `proxy` lets through; alone it means `proxy`.
    """

    role: Role
    processes: Iterable[str]
    expires: float
    sandbox: str | None
    workspace_roots: Iterable[Word]
    network: NetworkMode | None
    allowed_hosts: Iterable[str] | None


SHARE_DEFAULTS: ShareOptions = {
    "role": "observer",
    "processes": (),
    "expires": DAY,
    "sandbox": None,
    "workspace_roots": (),
    "network": None,
    "allowed_hosts": None,
}


def share_terms(options: ShareOptions, caller: Caller | None) -> ShareTerms:
    """Return what `share(output, **options)` asks for.

    Args:
        caller: `None` where the server is on another machine, whose folders its names are then.

    Raises:
        TypeError: an unknown keyword, or a value of a wrong type. InvalidRequest: a value out of range.
    """
    refuse_unknown("share", options, SHARE_DEFAULTS)
    options = {**SHARE_DEFAULTS, **options}
    processes, expires = options["processes"], seconds(options["expires"], "expires")
    if isinstance(processes, str):
        raise TypeError("processes must be a list of ids, not one id")
    if expires is None:
        raise InvalidRequest("a share needs an end: give expires in seconds")
    return ShareTerms(
        role=one_of(options["role"], "role", get_args(Role)),
        processes=tuple(identifier(one, "a process") or "" for one in processes),
        expires=expires,
        sandbox=sandbox_intent(options, caller),
    )
