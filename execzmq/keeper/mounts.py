"""Own the step that gives a command mounts of its own, to which no later mount of the host is added.

A namespace of mounts that is copied goes on getting what is mounted on the host, with the host's rights: a
sandbox that shows the host read-only would have a disk that is plugged in later writable. Bubblewrap does not
prevent that, so the mounts are made private before it copies them. It is the child's step, before the program
is executed.
"""

from __future__ import annotations

import ctypes
import os

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_RECURSIVE, _PRIVATE = 1 << 14, 1 << 18

# At load: after a fork nothing should have to be looked up.
_libc = ctypes.CDLL(None, use_errno=True)


def detach() -> bool:
    """Make this process's mounts its own and private; return whether that was possible.

    Where it needs a user namespace, as it does but for root, the process has one of its own afterwards, with
    its user and group in it, and no capability once it has executed a program.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0 and _unshare(_NEW_MOUNTS):
        return _make_private()
    # What fails halfway cannot be undone, so a child tries it.
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _detach_as(user, group) else 1)
    return os.waitpid(pid, 0)[1] == 0 and _detach_as(user, group)


def _detach_as(user: int, group: int) -> bool:
    try:
        if not _unshare(_NEW_USER | _NEW_MOUNTS):
            return False
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return _make_private()


def _unshare(kinds: int) -> bool:
    return bool(_libc.unshare(ctypes.c_int(kinds)) == 0)


def _make_private() -> bool:
    return bool(_libc.mount(None, b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None) == 0)
