"""Own what of a Git repository makes programs run: which files of it a command must not change.

A repository that a command makes anew, or a folder that it fills like a bare one, is not found here: whoever
runs Git in what a command has made trusts that command.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from execzmq.sandbox.disk import Disk
from execzmq.sandbox.layers import is_below
from execzmq.sandbox.model import ProtectGit

MOST_FOLDERS = 256
"""Folders that are looked into for nested repositories, over all roots; the nearest come first."""
MOST_ENTRIES = 20_000
"""Entries of these folders that are looked at, in whole hundreds of each: some 20 ms."""
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
_EXTENSION = b"worktreeconfig"


def kept_of(
    roots: Sequence[bytes], how: ProtectGit, may_enter: Callable[[bytes], bool], disk: Disk
) -> Iterator[bytes]:
    """Yield the paths of repositories in the roots that must stay as they are, or missing.

    Args:
        roots: resolved.
        how: what is protected of each repository.
        may_enter: tells of a folder whether a command can write there.
    """
    if how == "none":
        return
    for root in roots:
        yield from _kept_of_one(os.path.join(root, GIT), how, roots, disk)
    for folder in nested(roots, may_enter, disk):
        kept = _kept_of_one(os.path.join(folder, GIT), how, roots, disk)
        # A link cannot be kept; of a root's own that is an error, but a command may make one further below.
        yield from (path for path in kept if not disk.is_link(path))


def nested(roots: Sequence[bytes], may_enter: Callable[[bytes], bool], disk: Disk) -> Iterator[bytes]:
    """Yield the folders below the roots that are repositories, within the bounds of this module."""
    waiting = deque((root, 0) for root in roots)
    entries = MOST_ENTRIES
    for _ in range(MOST_FOLDERS):
        if not waiting or entries <= 0:
            return
        folder, level = waiting.popleft()
        if level and disk.exists(os.path.join(folder, GIT)):
            yield folder
        if level < MOST_DEPTH:
            inner, looked = _folders_in(folder, entries, disk)
            entries -= looked
            waiting.extend((path, level + 1) for path in inner if path not in roots and may_enter(path))


def _folders_in(folder: bytes, most: int, disk: Disk) -> tuple[list[bytes], int]:
    """Return the folders in a folder that may hold repositories, and how many entries were looked at."""
    found, count = disk.folders_in(folder, most)
    return [path for path in found if os.path.basename(path) not in _SKIPPED], count


def _kept_of_one(git: bytes, how: ProtectGit, roots: Sequence[bytes], disk: Disk) -> Iterator[bytes]:
    is_folder = disk.is_folder(git)
    if how == "all" or not is_folder:
        yield git
    inside = [git] if is_folder else _inside(_pointed_to(git, disk, _POINTER), roots, disk)
    commons = (_pointed_to(os.path.join(one, COMMON), disk) for one in inside)
    shared = [common for target in commons for common in _inside(target, roots, disk)]
    for one in (*inside, *shared):
        yield from [one] if how == "all" else _parts_with_linked(one, disk)


def _parts_with_linked(git: bytes, disk: Disk) -> Iterator[bytes]:
    """Yield what of a repository, its worktrees and its submodules names programs to run."""
    yield from _parts(git, disk)
    for worktree in _folders_in(os.path.join(git, b"worktrees"), MOST_LINKED, disk)[0]:
        yield os.path.join(worktree, COMMON)
    for module in _folders_in(os.path.join(git, b"modules"), MOST_LINKED, disk)[0]:
        yield from _parts(module, disk)


def _parts(git: bytes, disk: Disk) -> Iterator[bytes]:
    """Yield what of a repository names programs to run."""
    # A `commondir` that is made later would have Git read the other two elsewhere.
    for name in (b"hooks", b"config", COMMON):
        yield os.path.join(git, name)
    worktree = os.path.join(git, b"config.worktree")
    if disk.exists(worktree) or disk.has_word(os.path.join(git, b"config"), _EXTENSION, _CONFIG_BYTES):
        yield worktree


def _inside(target: bytes | None, roots: Sequence[bytes], disk: Disk) -> list[bytes]:
    """Return the folder that a pointer leads to, if a command could change it."""
    return [target] if target and is_below(target, roots) and disk.is_folder(target) else []


def _pointed_to(file: bytes, disk: Disk, prefix: bytes = b"") -> bytes | None:
    """Return the resolved path that a file of Git's consists of."""
    content = disk.content(file, _POINTER_BYTES)
    target = content.removeprefix(prefix).strip()
    if not content.startswith(prefix) or not target or b"\0" in target:
        return None
    return disk.real(os.path.join(disk.real(os.path.dirname(file)), target))
