"""Own where the file of a user's own profiles is and when it is read; knows nothing of what stands in it."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path

from execzmq.errors import InvalidRequest
from execzmq.sandbox.profiles import PermissionProfile, builtin_profiles, clean_path, find_profile
from execzmq.types.finding import Finding

MOST_BYTES = 64 * 1024
"""Size of the file: the server waits while it is read."""


def profiles_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the file is looked for; a folder that is not absolute counts as unset, as XDG has it."""
    variables = os.environ if environ is None else environ
    folder = variables.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~/.config"))
    return base / "execzmq" / "profiles.toml"


class ProfileStore:
    """Gives profiles by name; reads the file again when it has changed.

    Args:
        path: the file, which need not be there; `None` = where it is looked for.
        home: the user's; `None` = that of this process.
    """

    def __init__(self, path: Path | None = None, home: bytes | None = None) -> None:
        self.path = profiles_path() if path is None else path
        homes = _homes(os.environ, os.getuid()) if home is None else (home,)
        self.home = homes[0]
        self.builtin = builtin_profiles(*homes)
        self._read: tuple[tuple[int, ...], dict[str, PermissionProfile] | InvalidRequest] | None = None

    def get(self, name: str) -> PermissionProfile:
        """Return the profile of that name; for a built-in one the file is not looked at.

        Raises:
            InvalidRequest: there is none, or the file is wrong or open to others.
        """
        return self.builtin[name] if name in self.builtin else find_profile(name, self.all())

    def all(self) -> dict[str, PermissionProfile]:
        """Return every profile, the built-in ones first.

        Raises:
            InvalidRequest: the file is wrong, cannot be read, or is open to others.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return self.builtin
        except OSError as error:
            raise self._bad(f"it cannot be read ({error.strerror})") from None
        try:
            return self._of(fd)
        finally:
            os.close(fd)

    def finding(self) -> Finding:
        """Tell what the doctor says of the file: a fault is otherwise met by who names a profile of it."""
        try:
            own = len(self.all()) - len(self.builtin)
        except InvalidRequest as error:
            remedy = f"correct {self.path}; until then there are only {', '.join(self.builtin)}"
            return Finding("profiles", False, error.message, remedy)
        return Finding("profiles", True, f"the built-in ones, and {own or 'none'} in {self.path}")

    def _of(self, fd: int) -> dict[str, PermissionProfile]:
        status = os.fstat(fd)
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self._read is None or self._read[0] != identity:
            self._read = identity, self._verdict(fd, status)
        found = self._read[1]
        if isinstance(found, InvalidRequest):
            raise InvalidRequest(found.message, **found.details)
        return found

    def _verdict(self, fd: int, status: os.stat_result) -> dict[str, PermissionProfile] | InvalidRequest:
        """Return what is in the file, or what is wrong with it."""
        try:
            self._check(status)
            with open(fd, "rb", closefd=False) as file:
                return self._parsed(file.read(MOST_BYTES))
        except InvalidRequest as error:
            return error

    def _parsed(self, data: bytes) -> dict[str, PermissionProfile]:
        # Most users have no such file, and what reads it takes long to load.
        from execzmq.sandbox.profile_file import parse_profiles

        try:
            return parse_profiles(data.decode(), self.builtin, self.home, str(self.path))
        except UnicodeDecodeError:
            raise self._bad("it is not UTF-8") from None

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._bad("it is no file: put one there, or nothing")
        if status.st_size > MOST_BYTES:
            raise self._bad(f"it has {status.st_size:,} bytes, the most is {MOST_BYTES:,}: shorten it")
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
            raise self._bad(f"others can write to it: chmod go-w {self.path}, and be its owner")

    def _bad(self, what: str) -> InvalidRequest:
        return InvalidRequest(f"{self.path}: {what}", reason="bad_profile_file", file=str(self.path))


def _homes(environ: Mapping[str, str], uid: int) -> tuple[bytes, ...]:
    """Return the home that `~` is, and the one that the system knows, where a variable has moved it."""
    try:
        known = pwd.getpwuid(uid).pw_dir
    except KeyError:
        known = "/"
    named = [os.fsencode(path) for path in (environ.get("HOME", ""), known)]
    return tuple(dict.fromkeys(clean_path(path) for path in named if path.startswith(b"/"))) or (b"/",)
