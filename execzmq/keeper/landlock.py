"""Own the step that keeps a command in the host's network from the host's abstract sockets and processes.

A network namespace holds abstract sockets back; a command in the host's own network has none, and Landlock
does: its scopes (ABI 6, Linux 6.12) need no rule, so that bubblewrap can still mount. It is the child's step,
before the program is executed; the keeper itself is never restricted.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE, _RESTRICT = 444, 446
"""The numbers of landlock_create_ruleset(2) and landlock_restrict_self(2), alike on all architectures."""
_ASK_VERSION = 1
_SCOPES = 0b11
"""Abstract sockets and signals."""
_SCOPES_SINCE = 6
_NO_NEW_PRIVILEGES = 38

# At load: after a fork nothing should have to be looked up.
_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the version of Landlock's interface; 0 where there is none."""
    found = _libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))
    return max(int(found), 0)


def can_scope() -> bool:
    """Tell whether `scope` can do its work here."""
    return abi() >= _SCOPES_SINCE


def scope() -> None:
    """Keep this process, and all that comes of it, from abstract sockets and processes outside, for good.

    What is made within afterwards is reached as before. What it executes gains no privileges any more.

    Raises:
        OSError: this kernel cannot do it, or refuses.
    """
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))))
    attributes = struct.pack("=QQQ", 0, 0, _SCOPES)
    size = ctypes.c_size_t(len(attributes))
    ruleset = _check(_libc.syscall(ctypes.c_long(_CREATE), attributes, size, ctypes.c_uint(0)))
    try:
        _check(_libc.syscall(ctypes.c_long(_RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
