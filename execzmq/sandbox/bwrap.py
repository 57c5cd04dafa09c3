"""Own the command line of bubblewrap: what it is told for one command. Pure.

Nearly all of it goes by `--args`, a descriptor: not seen in `ps`, and without the kernel's limit. There is
no `--die-with-parent`: what a command leaves running lives on as it does without a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from execzmq.errors import InvalidRequest, LimitExceeded
from execzmq.sandbox.layers import is_below
from execzmq.sandbox.model import Mount, Network, Permissions, View

if TYPE_CHECKING:
    from execzmq.sandbox.host import Host

HOSTNAME = b"localhost"
"""A name that resolves: programs that ask for their own address fail otherwise."""
MOST_ARGUMENTS = 8900
"""Bubblewrap takes 9,000, the visible ones among them."""
MOST_REMOUNTS = 24
"""Names kept missing up to which each cover is also made read-only: each costs as much as all mounts before
it together. Beyond that their mode alone keeps them closed; nothing reaches the host either way."""

_REPLACED = (b"/tmp", b"/var/tmp", b"/run")
_NULL = b"/dev/null"
_FIRST_MEMORY = (b"/proc/1/mem", b"/proc/1/task/1/mem")
SETSID = b"/usr/bin/setsid"
"""Gives a command at a terminal its session; of util-linux."""
_PAGE = b"4096"


def arguments(
    permissions: Permissions,
    view: View,
    numbers: Sequence[int],
    *,
    host: Host,
    env: Mapping[bytes, bytes],
    cwd: bytes,
    tty: bool,
    resolver_fd: int | None = None,
    words: int = 0,
) -> list[bytes]:
    """Return what bubblewrap reads from `--args`.

    Args:
        permissions: what the command may do.
        view: what it sees.
        numbers: of the view's descriptors in the process that becomes bubblewrap, in the order of the view.
        host: what this machine has.
        env: the command's variables.
        cwd: working directory, inside of the view.
        tty: whether the command has a terminal, of which its own session is made inside.
        resolver_fd: file that says who resolves names there; `None` = the host's own.
        words: number of the command's own arguments, which bubblewrap counts too.

    Raises:
        InvalidRequest: a NUL is in a path or variable, or the name of a variable is none.
        LimitExceeded: more than bubblewrap takes.
    """
    minimal = permissions.read == "minimal"
    size = b"%d" % permissions.tmp_bytes
    own = _REPLACED if minimal else host.own
    result = [
        *_namespaces(permissions.network, tty),
        *(_minimal_base(host) if minimal else (b"--ro-bind", b"/", b"/")),
        *_devices(size),
        *_processes(host.masks, minimal),
        *_own_folders(size, own),
        *_resolver(permissions.network, host, resolver_fd),
        *_mounts(view.mounts, numbers),
        *((b"--remount-ro", b"/run") if b"/run" in own else ()),
        *((b"--remount-ro", b"/") if minimal else ()),
        *_variables(env),
        *(b"--chdir", cwd),
    ]
    _check(result, words)
    return result


def encoded(args: Iterable[bytes]) -> bytes:
    """Return arguments as `--args` reads them."""
    return b"\0".join((*args, b""))


def command(
    program: bytes,
    argv: Sequence[bytes],
    *,
    args_fd: int,
    status_fd: int,
    block_fd: int,
    seccomp_fd: int | None,
    tty: bool,
) -> list[bytes]:
    """Return the visible command line.

    Args:
        program: bubblewrap, absolute.
        argv: the command itself.
        args_fd: descriptor that `arguments` are read from.
        status_fd: descriptor that bubblewrap tells its state to.
        block_fd: descriptor that it waits at before the command runs.
        seccomp_fd: descriptor of the filter; `None` = without one.
        tty: whether the command gets a terminal: then it becomes the leader of a session that has it.
    """
    filtered = (b"--seccomp", b"%d" % seccomp_fd) if seccomp_fd is not None else ()
    session = (SETSID, b"-c", b"--") if tty else ()
    told = (b"--json-status-fd", b"%d" % status_fd, b"--block-fd", b"%d" % block_fd)
    return [program, b"--args", b"%d" % args_fd, *filtered, *told, b"--", *session, *argv]


def _namespaces(network: Network, tty: bool) -> list[bytes]:
    shared = network.mode == "host"
    return [
        # Said outright: for root it would not be implied.
        b"--unshare-user",
        b"--disable-userns",
        b"--unshare-ipc",
        b"--unshare-pid",
        *(b"--unshare-uts", b"--hostname", HOSTNAME),
        b"--unshare-cgroup-try",
        *(() if shared else (b"--unshare-net",)),
        *(b"--cap-drop", b"ALL"),
        *(() if tty else (b"--new-session",)),
    ]


def _minimal_base(host: Host) -> list[bytes]:
    folders = [arg for path in host.folders for arg in (b"--ro-bind", path, path)]
    links = [arg for path, target in host.links for arg in (b"--symlink", target, path)]
    made = [b"--dir", b"/etc", b"--dir", b"/var"]
    return folders + links + made + [arg for p in host.settings for arg in (b"--ro-bind-try", p, p)]


def _devices(size: bytes) -> list[bytes]:
    memory = (b"--size", size, b"--perms", b"1777", b"--tmpfs", b"/dev/shm")
    return [b"--dev", b"/dev", *memory, b"--remount-ro", b"/dev"]


def _processes(masks: Iterable[Mount], minimal: bool) -> list[bytes]:
    # Root's processes may write there, whatever capability they lack.
    result = [b"--proc", b"/proc", b"--ro-bind", b"/proc/sys", b"/proc/sys"]
    # The first process puts its filter on when the command may run already: that must not have its memory.
    result += [arg for path in _FIRST_MEMORY for arg in (b"--ro-bind", _NULL, path)]
    for mask in masks:
        if mask.path.startswith(b"/proc/") or not minimal:
            result += _cover(mask.path, b"555") if mask.is_dir else (b"--ro-bind", _NULL, mask.path)
    return result


def _own_folders(size: bytes, folders: Collection[bytes]) -> list[bytes]:
    # `/run` is closed last: what is mounted below it needs folders there.
    temporary = (path for path in (b"/tmp", b"/var/tmp") if path in folders)
    result = [arg for path in temporary for arg in (b"--size", size, b"--perms", b"1777", b"--tmpfs", path)]
    return [*result, *((b"--perms", b"755", b"--tmpfs", b"/run") if b"/run" in folders else ())]


def _resolver(network: Network, host: Host, fd: int | None) -> list[bytes]:
    if host.resolver is None or network.mode not in ("internet", "host"):
        return []
    if fd is not None:
        return [b"--ro-bind-data", b"%d" % fd, host.resolver[1]]
    return [b"--ro-bind-try", *host.resolver]


def _mounts(mounts: Sequence[Mount], numbers: Sequence[int]) -> list[bytes]:
    shown = iter(numbers)
    visible = [mount.path for mount in mounts if mount.access != "deny"]
    missing = sum(mount.is_missing for mount in mounts)
    result: list[bytes] = []
    closed: list[bytes] = []
    for mount in mounts:
        if mount.fd >= 0:
            result += (_BIND[mount.access], b"%d" % next(shown), mount.path)
        elif not mount.is_dir:
            result += (b"--ro-bind", mount.path if mount.is_missing else _NULL, mount.path)
        elif mount.is_missing:
            result += _placeholder(mount, is_closed=missing <= MOST_REMOUNTS)
        elif any(is_below(path, (mount.path,)) for path in visible):
            result += _cover(mount.path, b"111")[:-2]
            closed += (b"--remount-ro", mount.path)
        else:
            result += _cover(mount.path, b"000")
    return result + closed


_BIND = {"write": b"--bind-fd", "read": b"--ro-bind-fd"}


def _placeholder(mount: Mount, *, is_closed: bool) -> Sequence[bytes]:
    cover = (b"--size", _PAGE, *_cover(mount.path, b"000" if mount.access == "deny" else b"555"))
    return cover if is_closed else cover[:-2]


def _cover(path: bytes, mode: bytes) -> Sequence[bytes]:
    return (b"--perms", mode, b"--tmpfs", path, b"--remount-ro", path)


def _variables(env: Mapping[bytes, bytes]) -> list[bytes]:
    for name in env:
        if not name or b"=" in name:
            message = f"no variable can have the name {os.fsdecode(name)!r}: leave it out"
            raise InvalidRequest(message, reason="bad_variable", variable=os.fsdecode(name))
    return [b"--clearenv", *(arg for name, value in env.items() for arg in (b"--setenv", name, value))]


def _check(args: Sequence[bytes], words: int) -> None:
    if encoded(args).count(b"\0") != len(args):
        bad = next(arg for arg in args if b"\0" in arg)
        message = f"{os.fsdecode(bad)!r} has a NUL in it, which no path and no variable has"
        raise InvalidRequest(message, reason="path_with_nul", path=os.fsdecode(bad))
    if len(args) + words > MOST_ARGUMENTS:
        value, most = len(args) + words, MOST_ARGUMENTS
        message = (
            f"bubblewrap would need {value} arguments, the most is {most}: use fewer of the command's own"
        )
        raise LimitExceeded(
            f"{message}, variables or roots", limit=most, value=value, reason="too_many_arguments"
        )
