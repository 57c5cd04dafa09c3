"""Own what of a Git repository makes programs run: which files of it a command must not change.

A repository that a command makes anew, or a folder that it fills like a bare one, is not found here: whoever
runs Git in what a command has made trusts that command.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from execzmq.sandbox.layers import is_below
from execzmq.sandbox.model import ProtectGit
from execzmq.sandbox.places import check_not_scarce, is_folder

MOST_FOLDERS = 256
"""Folders that are looked into for nested repositories, over all roots; the nearest come first."""
MOST_ENTRIES = 20_000
"""Entries of these folders that are looked at: some 20 ms."""
MOST_LINKED = 32
"""Worktrees, and as many submodules, of one repository whose own configuration is protected."""
MOST_DEPTH = 4
"""Levels below a root down to which nested repositories are looked for."""

GIT = b".git"
COMMON = b"commondir"
"""Names where a linked worktree has its configuration; Git believes it in any repository."""
HERE = b".\n"
"""Content of a `commondir` with which Git does the same as without one."""

_SKIPPED = {GIT, b"node_modules", b".venv", b"__pycache__"}
_POINTER_BYTES = 4096
_POINTER = b"gitdir:"
_CONFIG_BYTES = 1 << 20


def kept_of(roots: Sequence[bytes], how: ProtectGit, may_enter: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield the paths of repositories in the roots that must stay as they are, or missing.

    Args:
        roots: resolved.
        how: what is protected of each repository.
        may_enter: tells of a folder whether a command can write there.
    """
    if how == "none":
        return
    for root in roots:
        yield from _kept_of_one(os.path.join(root, GIT), how, roots)
    for folder in nested(roots, may_enter):
        kept = _kept_of_one(os.path.join(folder, GIT), how, roots)
        # A link cannot be kept; of a root's own that is an error, but a command may make one further below.
        yield from (path for path in kept if not os.path.islink(path))


def nested(roots: Sequence[bytes], may_enter: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield the folders below the roots that are repositories, within the bounds of this module."""
    waiting = deque((root, 0) for root in roots)
    entries = MOST_ENTRIES
    for _ in range(MOST_FOLDERS):
        if not waiting or entries <= 0:
            return
        folder, level = waiting.popleft()
        if level and os.path.lexists(os.path.join(folder, GIT)):
            yield folder
        if level < MOST_DEPTH:
            inner, looked = _folders_in(folder, entries)
            entries -= looked
            waiting.extend((path, level + 1) for path in inner if path not in roots and may_enter(path))


def _folders_in(folder: bytes, most: int) -> tuple[list[bytes], int]:
    """Return the folders in a folder that may hold repositories, and how many entries were looked at."""
    try:
        with os.scandir(folder) as entries:
            found = {entry.path: entry.is_dir(follow_symlinks=False) for entry in islice(entries, most)}
    except OSError as error:
        check_not_scarce(error)
        return [], 0
    folders = (path for path, is_dir in found.items() if is_dir and os.path.basename(path) not in _SKIPPED)
    return sorted(folders), len(found)


def _kept_of_one(git: bytes, how: ProtectGit, roots: Sequence[bytes]) -> Iterator[bytes]:
    if how == "all" or not is_folder(git):
        yield git
    inside = [git] if is_folder(git) else _inside(_pointed_to(git, _POINTER), roots)
    shared = [common for one in inside for common in _inside(_pointed_to(os.path.join(one, COMMON)), roots)]
    for one in (*inside, *shared):
        yield from [one] if how == "all" else _parts_with_linked(one)


def _parts_with_linked(git: bytes) -> Iterator[bytes]:
    """Yield what of a repository, its worktrees and its submodules names programs to run."""
    yield from _parts(git)
    for worktree in _folders_in(os.path.join(git, b"worktrees"), MOST_LINKED)[0]:
        yield os.path.join(worktree, COMMON)
    for module in _folders_in(os.path.join(git, b"modules"), MOST_LINKED)[0]:
        yield from _parts(module)


def _parts(git: bytes) -> Iterator[bytes]:
    """Yield what of a repository names programs to run."""
    # A `commondir` that is made later would have Git read the other two elsewhere.
    for name in (b"hooks", b"config", COMMON):
        yield os.path.join(git, name)
    worktree = os.path.join(git, b"config.worktree")
    if (
        os.path.lexists(worktree)
        or b"worktreeconfig" in _read(os.path.join(git, b"config"), _CONFIG_BYTES).lower()
    ):
        yield worktree


def _inside(target: bytes | None, roots: Sequence[bytes]) -> list[bytes]:
    """Return the folder that a pointer leads to, if a command could change it."""
    return [target] if target and is_below(target, roots) and is_folder(target) else []


def _pointed_to(file: bytes, prefix: bytes = b"") -> bytes | None:
    """Return the resolved path that a file of Git's consists of."""
    content = _read(file, _POINTER_BYTES)
    target = content.removeprefix(prefix).strip()
    if not content.startswith(prefix) or not target or b"\0" in target:
        return None
    return os.path.realpath(os.path.join(os.path.realpath(os.path.dirname(file)), target))


def _read(file: bytes, most: int) -> bytes:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        check_not_scarce(error)
        return b""
    try:
        return os.read(fd, most)
    except OSError:
        return b""
    finally:
        os.close(fd)
