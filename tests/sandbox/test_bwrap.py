"""The command line of bubblewrap, word by word: pure."""

import os
from dataclasses import replace

import pytest

from execzmq.errors import InvalidRequest, LimitExceeded
from execzmq.sandbox import bwrap
from execzmq.sandbox.host import Host
from execzmq.sandbox.model import Mount, Network, Permissions, View
from tests.sandbox.bare import permissions

HOST = Host(
    links=((b"/bin", b"usr/bin"),),
    folders=(b"/usr",),
    settings=(b"/etc/passwd",),
    resolver=(b"/run/r/resolv.conf", b"/run/r/resolv.conf"),
    own=(b"/tmp", b"/var/tmp", b"/run"),
    masks=(Mount(b"/proc/kcore", "deny", False), Mount(b"/sys/firmware", "deny", True)),
)
MOUNTS = (
    Mount(b"/ws", "write", True, 50),
    Mount(b"/ws/.codex", "read", True, -1, is_missing=True),
    Mount(b"/ws/.git", "read", True, 51),
    Mount(b"/ws/d", "deny", True),
    Mount(b"/ws/key", "deny", False),
    Mount(b"/ws/d/in", "read", True, 52),
    Mount(b"/ws/state", "deny", True, is_last=True),
)


def line(wanted: Permissions, mounts: tuple[Mount, ...] = MOUNTS, **changes: object) -> str:
    given: dict[str, object] = {"host": HOST, "env": {b"A": b"1"}, "cwd": b"/ws", "tty": False, **changes}
    numbers = [9 + number for number in range(sum(mount.fd >= 0 for mount in mounts))]
    args = bwrap.arguments(wanted, View(mounts, (b"/ws",)), numbers, **given)  # type: ignore[arg-type]  # mixed
    return os.fsdecode(b" ".join(args))


def test_whole_line() -> None:
    """Namespaces, base, devices, own folders, mounts by descriptor, the server's own, variables."""
    assert line(permissions(tmp_bytes=7)) == (
        "--unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-uts --hostname localhost"
        " --unshare-cgroup-try --unshare-net --cap-drop ALL --new-session"
        " --ro-bind / /"
        " --dev /dev --size 7 --perms 1777 --tmpfs /dev/shm --remount-ro /dev"
        " --proc /proc --ro-bind /proc/sys /proc/sys"
        " --ro-bind /dev/null /proc/1/mem --ro-bind /dev/null /proc/1/task/1/mem"
        " --ro-bind /dev/null /proc/kcore --perms 555 --tmpfs /sys/firmware --remount-ro /sys/firmware"
        " --size 7 --perms 1777 --tmpfs /tmp --size 7 --perms 1777 --tmpfs /var/tmp --perms 755 --tmpfs /run"
        " --bind-fd 9 /ws"
        " --size 4096 --perms 555 --tmpfs /ws/.codex --remount-ro /ws/.codex"
        " --ro-bind-fd 10 /ws/.git"
        " --perms 111 --tmpfs /ws/d"
        " --ro-bind /dev/null /ws/key"
        " --ro-bind-fd 11 /ws/d/in"
        " --perms 000 --tmpfs /ws/state --remount-ro /ws/state"
        " --remount-ro /ws/d"
        " --remount-ro /run"
        " --clearenv --setenv A 1"
        " --chdir /ws"
    )


def test_minimal_base() -> None:
    """The minimal base has programs, links and settings, nothing of `/sys`, and is closed at the end."""
    text = line(permissions(read="minimal"), ())
    assert (
        " --ro-bind /usr /usr --symlink usr/bin /bin --dir /etc --dir /var"
        " --ro-bind-try /etc/passwd /etc/passwd --dev /dev" in text
    )
    assert "--ro-bind / /" not in text
    assert "/sys/firmware" not in text
    assert "--remount-ro /run --remount-ro / --clearenv" in text


def test_folders_that_this_machine_lacks() -> None:
    """On the host's base nothing can be made: what is missing there, or a link, is not replaced."""
    bare_host = replace(HOST, own=(b"/tmp",))
    assert not {"/var/tmp", "/run"} & set(line(permissions(), host=bare_host).split())
    assert {"/var/tmp", "/run"} <= set(line(permissions(read="minimal"), host=bare_host).split())


@pytest.mark.parametrize("mode", ["none", "proxy", "internet", "host"])
def test_networks(mode: str) -> None:
    """All but `host` have a network of their own; who resolves names is shown where there is one to ask."""
    text = line(permissions(network=Network(mode)))  # type: ignore[arg-type]  # a literal
    assert ("--unshare-net" in text) == (mode != "host")
    assert ("--ro-bind-try /run/r/resolv.conf" in text) == (mode in ("internet", "host"))


def test_terminal() -> None:
    """A command with a terminal gets its session inside, for job control; any other has none to use."""
    assert "--new-session" not in line(permissions(), tty=True)
    told = {"args_fd": 3, "status_fd": 4, "block_fd": 5}
    assert bwrap.command(b"/usr/bin/bwrap", [b"--bind", b"x"], **told, seccomp_fd=6, tty=True) == (
        b"/usr/bin/bwrap --args 3 --seccomp 6 --json-status-fd 4 --block-fd 5"
        b" -- /usr/bin/setsid -c -- --bind x".split()
    )
    assert bwrap.command(b"/b", [b"--bind"], **told, seccomp_fd=None, tty=False) == (
        b"/b --args 3 --json-status-fd 4 --block-fd 5 -- --bind".split()
    )


def test_nothing_ends_with_its_parent() -> None:
    """C66: a background job outlives its command, in a sandbox as outside of it."""
    assert "die-with-parent" not in line(permissions())


def test_many_missing_names_are_covered_once_each() -> None:
    """Making covers read-only takes longer with each: beyond a number their mode alone closes them."""
    many = tuple(
        Mount(b"/ws/%d" % n, "read", True, -1, is_missing=True) for n in range(bwrap.MOST_REMOUNTS + 1)
    )
    assert "--remount-ro /ws/" not in line(permissions(), many)
    assert "--remount-ro /ws/" in line(permissions(), many[1:])


def test_file_that_stands_for_a_missing_one() -> None:
    """A missing file is shown as it was made before the start: nothing else may take its name."""
    mount = Mount(b"/ws/.git/commondir", "read", False, -1, is_missing=True)
    assert "--ro-bind /ws/.git/commondir /ws/.git/commondir" in line(permissions(), (mount,))


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {b"A": b"x\0--bind\0/\0/"}},
        {"env": {b"A=B": b"x"}},
        {"env": {b"": b"x"}},
        {"cwd": b"/a\0--bind"},
        {"mounts": (Mount(b"/a\0b", "deny", True),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_words_that_would_be_more_than_one(changes: dict[str, object]) -> None:
    """Escape 68: a NUL would add options, a `=` would set another variable."""
    with pytest.raises(InvalidRequest):
        line(permissions(), **changes)  # type: ignore[arg-type]  # mixed


def test_too_many_words() -> None:
    """More words than bubblewrap takes are refused before it is started."""
    with pytest.raises(LimitExceeded) as error:
        line(permissions(), env={b"V%d" % number: b"" for number in range(3000)})
    assert error.value.reason == "too_many_arguments"


def test_encoding() -> None:
    """Each word ends with a NUL, as bubblewrap reads them."""
    assert bwrap.encoded([b"--a", b"", b"\xff"]) == b"--a\0\0\xff\0"
