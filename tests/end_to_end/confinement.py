"""What one sees from the host of sandboxed commands: who runs, what holds them, and what is left of them."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import slirp
from execzmq.sandbox.cgroup_plan import prefix_of

MEMORY, PROCESSES, FILE_SIZE = 200 << 20, 20, 1 << 20
"""Limits of every command here."""
LINE = """
{ ulimit -f; grep Seccomp: /proc/self/status; grep -c ': ' /proc/net/dev; touch /nosuch 2>&1; } > begun-$0
mv begun-$0 ran-$0
while :; do sleep 0.05; done
"""
"""Writes what it finds to a file in its root, then stays; `$0` is its id."""
_RAN = re.compile(r"2048\nSeccomp:\t2\n[12]\n.*Read-only file system\n")


class Seen(NamedTuple):
    """A process of a sandbox: its words."""

    pid: int
    words: tuple[bytes, ...]

    @property
    def is_wrapper(self) -> bool:
        """Tell whether it is bubblewrap, before or around the command."""
        return self.words[0].endswith(b"bwrap")


def seen(token: bytes) -> list[Seen]:
    """Return the processes that have a word in their command lines."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = tuple(Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[:-1])
            if token in words and b"execzmq.keeper" not in b" ".join(words):
                found.append(Seen(int(name), words))
    return found


def faults_of(pid: int) -> list[str]:
    """Return what does not hold a process that was executed; nothing if it has ended meanwhile."""
    try:
        return list(_faults(pid))
    except (OSError, ProcessLookupError):
        return []


def _faults(pid: int) -> Iterator[str]:
    status = dict(line.split(":\t", 1) for line in _read(pid, "status").splitlines() if ":\t" in line)
    limits = {line[:26].strip(): line[26:].split() for line in _read(pid, "limits").splitlines()[1:]}
    groups = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in _read(pid, "cgroup").splitlines()}
    if status["Seccomp"].strip() != "2":
        yield "no filter"
    if int(status["CapEff"], 16):
        yield "it has capabilities"
    if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        yield "the host's network"
    if limits["Max file size"][0] != str(FILE_SIZE):
        yield f"file size {limits['Max file size']}"
    if limits["Max address space"][0] != str(MEMORY) and _limit(groups, "memory") != MEMORY:
        yield f"memory {groups}"
    if limits["Max processes"][0] == "unlimited" and not PROCESSES <= _limit(groups, "pids") < PROCESSES + 9:
        yield f"processes {groups}"


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _limit(groups: dict[str, str], controller: str) -> int:
    """Return what the control group of a process says, 0 where there is none."""
    files = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}[controller]
    old, new = f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"
    for path in (f"{old}{groups.get(controller, '')}/{files[0]}", f"{new}{groups.get('', '')}/{files[1]}"):
        with contextlib.suppress(OSError, ValueError):
            return int(Path(path).read_text())
    return 0


def did_run(root: Path, process_id: str) -> bool:
    """Tell whether a command has run; what it has found then is what should hold it."""
    try:
        found = (root / f"ran-{process_id}").read_text()
    except FileNotFoundError:
        return (root / f"begun-{process_id}").exists()
    assert _RAN.fullmatch(found), found
    return True


def groups_of(state: Path) -> list[str]:
    """Return the control groups of a server."""
    prefix = prefix_of(str(state))
    trees = [Path("/sys/fs/cgroup"), *(path for path in Path("/sys/fs/cgroup").iterdir() if path.is_dir())]
    return [str(found) for tree in trees for found in tree.glob(f"**/{prefix}*")]


def companions() -> set[int]:
    """Return the networks of all sandboxes of this machine."""
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.path.basename(Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[0]) == b"slirp4netns":
                found.add(int(name))
    return found


def has_internet() -> bool:
    """Tell whether sandboxes can have the internet here."""
    try:
        return bool(slirp.find())
    except SandboxUnavailable:
        return False
