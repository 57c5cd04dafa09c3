"""Own the questions to this host that tell a refusal of the sandbox from one that comes anyway.

Each answer is of now, for the user that this process runs as; `None` where the host does not tell. Nothing
here changes anything. It must not know what the answers are for.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from execzmq.sandbox.sight import Reach

_LISTENING = "0A"


class Host:
    """The `Outside` that is this host, for this process's user. A look blocks as long as the file system."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def resolve(self, path: bytes) -> bytes:
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def exists(self, path: bytes) -> bool:
        try:
            return os.path.lexists(path)
        except ValueError:
            return False

    def may(self, path: bytes, reach: Reach) -> bool | None:
        try:
            place, wanted = _question(path, reach)
            if reach == "own" and place != path:
                return None
            if reach == "own":
                return os.geteuid() in (0, os.stat(place).st_uid) and not _is_read_only(place)
            return os.access(place, wanted, effective_ids=True)
        except PermissionError:
            return False
        except (OSError, ValueError):
            return None

    def may_plainly(self, path: bytes, reach: Reach) -> bool | None:
        try:
            place, wanted = _question(path, reach)
            if reach == "own":
                return os.stat(place).st_uid == os.geteuid()
            return _has_mode(place, wanted) and all(_has_mode(p, os.X_OK) for p in _ancestors(place))
        except PermissionError:
            return False
        except (OSError, ValueError):
            return None

    def is_one_device(self, paths: tuple[bytes, ...]) -> bool | None:
        try:
            return len({os.stat(_existing(path)).st_dev for path in paths}) == 1
        except (OSError, ValueError):
            return None

    def has_capability(self, number: int) -> bool | None:
        for line in self._lines("self/status"):
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> number & 1)
        return None

    def listens(self, port: int) -> bool | None:
        lines = [line.split() for name in ("net/tcp", "net/tcp6") for line in self._lines(name)]
        if not lines:
            return None
        ending = f":{port:04X}"
        return any(len(f) > 3 and f[1].endswith(ending) and f[3] == _LISTENING for f in lines)

    def is_online(self) -> bool | None:
        routes = [line.split() for line in self._lines("net/route")]
        wide = [line.split() for line in self._lines("net/ipv6_route")]
        if not routes and not wide:
            return None
        has_route = any(len(f) > 7 and f[1] == f[7] == "00000000" for f in routes)
        return has_route or any(len(f) > 9 and f[1] == "00" and f[9] != "lo" for f in wide)

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []


def _question(path: bytes, reach: Reach) -> tuple[bytes, int]:
    """Return which place must allow what: what is missing is made, and what is removed goes, in a folder."""
    if reach == "remove":
        return _existing(os.path.dirname(path)), os.W_OK | os.X_OK
    place = _existing(path)
    if place != path and reach != "own":
        return place, os.X_OK | (os.W_OK if reach == "write" else 0)
    return place, os.W_OK if reach == "write" else os.R_OK


def _existing(path: bytes) -> bytes:
    """Return the nearest of a path and its ancestors that is there.

    Raises:
        PermissionError: one of them may not be searched.
    """
    while True:
        try:
            os.stat(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) or path in (b"/", b""):
                raise
            path = os.path.dirname(path)
        else:
            return path


def _ancestors(path: bytes) -> list[bytes]:
    parts = path.split(b"/")[1:-1]
    return [b"/", *(b"/" + b"/".join(parts[: count + 1]) for count in range(len(parts)))]


def _is_read_only(path: bytes) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _has_mode(path: bytes, wanted: int) -> bool:
    """Tell what the mode of a file gives this user; access lists are not looked at."""
    facts = os.stat(path)
    if facts.st_uid == os.geteuid():
        shift = 6
    elif facts.st_gid in {os.getegid(), *os.getgroups()}:
        shift = 3
    else:
        shift = 0
    return stat.S_IMODE(facts.st_mode) >> shift & wanted == wanted
