"""Own the look at what a server stands on: folders, modes, limits and versions of this machine."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import zmq

from execzmq.aside import Aside
from execzmq.keeper import landlock
from execzmq.process import journal
from execzmq.sandbox.disk import Disk
from execzmq.sandbox.mountinfo import MountTable
from execzmq.settings import GIB, VERSION
from execzmq.types.finding import Finding

_DESCRIPTORS = 4096
_FREE = 1 * GIB
_ROOT = str(Path(__file__).resolve().parents[2])
_DETACH = """
import sys
sys.path.insert(0, {root!r})
from execzmq.keeper.mounts import detach
sys.exit(not detach())
"""
_DETACH_SECONDS = 10.0


def examine(folder: Path) -> list[Finding]:
    """Look at a state folder and at the limits of this process; may wait for a slow file system."""
    return [
        _versions(),
        _folder(folder),
        _disk(folder),
        _journal(folder),
        _descriptors(),
        _processes(),
        _user(),
        landlock_finding(),
        mounts_finding(),
    ]


class Examiner:
    """Examines from a loop, beside it, since a file system may hang; who asks meanwhile shares.

    Args:
        folder: a state folder.
        further: looks at something else; runs in the same thread, after it.
    """

    def __init__(self, folder: Path, further: Callable[[], Iterable[Finding]] = tuple) -> None:
        self._examining = Aside(lambda: [*examine(folder), *further()])

    async def examine(self) -> list[Finding]:
        """Return what `examine` does; cancelling leaves the look to the others who wait for it."""
        return await self._examining.do()


def _versions() -> Finding:
    text = (
        f"execzmq {VERSION}, Python {platform.python_version()}, pyzmq {zmq.__version__}, "
        f"libzmq {zmq.zmq_version()}, {platform.system()} {platform.release()}"
    )
    return Finding("versions", True, text)


def _folder(folder: Path) -> Finding:
    try:
        status = folder.stat()
    except OSError as error:
        return Finding(
            "state folder", False, f"{folder}: {error.strerror}", "start the server once; it makes the folder"
        )
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.getuid() or mode & 0o077:
        remedy = f"chmod 700 {folder} and let it belong to you"
        return Finding("state folder", False, f"{folder} has mode {mode:o} and owner {status.st_uid}", remedy)
    return Finding("state folder", True, f"{folder} has mode {mode:o}")


def _disk(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", False, f"{folder}: {error.strerror}", "make the disk readable")
    text = f"{free // (1 << 20)} MiB free for logs"
    return Finding(
        "disk", free >= _FREE, text, "" if free >= _FREE else "make room: logs get a tenth of what is free"
    )


def _journal(folder: Path) -> Finding:
    try:
        records, damaged = journal.examine(folder / "journal")
    except FileNotFoundError:
        return Finding("journal", True, "nothing was started yet")
    except OSError as error:
        return Finding(
            "journal", False, f"it cannot be read: {error.strerror}", "look at the disk and its mount"
        )
    if damaged:
        text = f"{damaged} damaged lines beside {records} records"
        remedy = "they are left out when a server starts, and gone soon after; its log tells more"
        return Finding("journal", False, text, remedy)
    return Finding("journal", True, f"{records} records")


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS
    remedy = "" if enough else f"raise the hard limit (ulimit -Hn) to {_DESCRIPTORS} or more"
    return Finding("descriptors", enough, f"{soft} of {hard} allowed; a process needs up to 8", remedy)


def _processes() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    shown = "no limit" if soft == resource.RLIM_INFINITY else f"{soft} of {hard}"
    enough = soft == resource.RLIM_INFINITY or soft >= 512
    return Finding(
        "processes", enough, f"{shown} for this user", "" if enough else "raise ulimit -u to 512 or more"
    )


def _user() -> Finding:
    if os.geteuid() != 0:
        return Finding("user", True, f"user {os.geteuid()}")
    text = (
        "root: a command in a sandbox is root without any capability. It writes its roots alone, but reads "
        "root's own files where the profile does not deny them; the server of an ordinary user is better held"
    )
    return Finding("user", True, text)


def landlock_finding() -> Finding:
    """Tell what a sandbox in this host's network reaches."""
    abi = landlock.abi()
    if landlock.can_scope():
        return Finding("Landlock", True, f"ABI {abi}: also with network=host no abstract socket is reached")
    text = "with network=host a sandbox reaches this host's abstract sockets"
    found = f"ABI {abi}" if abi else "not there"
    return Finding("Landlock", True, f"{found}: {text}; Linux 6.12 or newer holds them back")


def mounts_finding() -> Finding:
    """Tell whether a sandbox sees what is mounted while its command runs."""
    name = "later mounts"
    if not mounts_are_shared():
        return Finding(name, True, "this host hands none on: a sandbox sees what was there at its start")
    if _can_detach():
        return Finding(name, True, "a sandbox sees what was there at its start, and nothing that comes later")
    text = (
        "a sandbox sees what is mounted while its command runs, to be written too where the host may: this "
        "user can make no namespace but by bubblewrap (see kernel.apparmor_restrict_unprivileged_userns)"
    )
    return Finding(name, True, text)


def mounts_are_shared() -> bool:
    """Tell whether copies of this host's mounts go on getting what is mounted on it."""
    return MountTable(Disk().mounts()).are_shared


def _can_detach() -> bool:
    """Try in a process of its own what the keeper's child does; takes as long as a Python's start."""
    program = [sys.executable, "-I", "-S", "-c", _DETACH.format(root=_ROOT)]
    try:
        done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DETACH_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
