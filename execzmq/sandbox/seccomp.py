"""Own which system calls a sandboxed command may not make, as the bytes that `bwrap --seccomp` reads. Pure.

What is not listed is allowed. The list closes what no mount and no namespace closes: new namespaces, the
mount calls, the kernel's own tools, typing into a terminal, set-uid files left behind, sockets of families
that no network namespace holds back. It is the same for root and for others.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from execzmq.errors import SandboxUnavailable

if TYPE_CHECKING:  # seccompy is there on Linux alone, and only a sandboxed start has a use for it
    from seccompy import ArgCmp, Filter

REFUSED = (
    *("mount", "umount2", "pivot_root", "chroot", "setns", "unshare"),
    *("open_tree", "open_tree_attr", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick"),
    *("bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("open_by_handle_at", "swapon", "swapoff", "reboot", "acct", "quotactl", "quotactl_fd"),
    *("iopl", "ioperm", "clock_settime", "clock_adjtime", "settimeofday", "adjtimex", "syslog", "vhangup"),
)
"""Answered with EPERM."""
TRACING = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp")
"""The same, unless the profile lets its processes trace each other."""
ABSENT = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Answered with ENOSYS, as an old kernel does: no filter sees their arguments, programs have another way."""

MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
MODES |= {"creat": 1}
"""Call to the number of its argument that is a file's mode. A folder is made by mkdir(2) without these bits,
whatever is asked for: so it is let through, as programs that copy a set-gid folder do ask."""
CREATING = {"open": (1, 2), "openat": (2, 3)}
"""Call to the numbers of its flags and of its mode, which counts only where the flags make a file."""
MAKES_FILE = (0o100, 0o20000000)  # O_CREAT, O_TMPFILE
PRIVILEGED = (0o4000, 0o2000)  # S_ISUID, S_ISGID
NAMESPACES = (0x20000, *(1 << bit for bit in range(25, 31)))
"""The CLONE_NEW* bits of clone(2)."""
TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_X32 = 0x40000000
_X32_OWN = (512, 548)
"""Numbers of x32 alone; kernels before 5.4 also take them without its bit."""
_SKIPPED = 0xFFFFFFFF
"""The number -1, for a call that a tracer skips; the kernel answers it with ENOSYS."""
_INT = 0xFFFFFFFF
"""The bits of an argument that the kernel looks at where it takes an int."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_TYPE, _RAW, _PACKET = 0xF, 3, 10


@cache
def program(*, allow_debug: bool) -> bytes:
    """Return the filter for this machine's architecture as packed `struct sock_filter`.

    Raises:
        SandboxUnavailable: the numbers of this architecture's calls are not known.
    """
    import seccompy

    try:
        return _prologue(seccompy.arch()) + _filter(allow_debug).program
    except seccompy.UnsupportedError as error:
        text = f"no system call filter for this machine: {error}; sandboxes need x86_64 or aarch64"
        raise SandboxUnavailable(text, reason="seccomp") from error


def _prologue(arch: str) -> bytes:
    """Return what ends a process that calls by the numbers of x32, which seccompy lets pass."""
    from seccompy import Action, bpf

    if arch != "x86_64":
        return b""
    low, high = _X32_OWN
    insns: list[bpf.Insn] = [
        bpf.Load(0),
        bpf.Jump(bpf.BPF_JEQ, _SKIPPED, "on", None),
        bpf.Jump(bpf.BPF_JGEQ, _X32, "end", None),
        bpf.Jump(bpf.BPF_JGEQ, high, "on", None),
        bpf.Jump(bpf.BPF_JGEQ, low, "end", "on"),
        bpf.Ret(int(Action.KILL_PROCESS)),
    ]
    return bpf.assemble(insns, {"end": 5, "on": 6})


def _filter(allow_debug: bool) -> Filter:
    from seccompy import Filter

    found = Filter()
    for name in _known((*REFUSED, *(() if allow_debug else TRACING))):
        found.errno(name, errno.EPERM)
    for name in _known(ABSENT):
        found.errno(name, errno.ENOSYS)
    for name, conditions in _by_argument():
        found.errno(name, errno.EPERM, args=conditions)
    _sockets(found)
    return found


def _known(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the calls that this architecture has."""
    import seccompy

    for name in names:
        try:
            seccompy.syscall_nr(name)
        except ValueError:
            continue
        yield name


def _by_argument() -> Iterator[tuple[str, list[ArgCmp]]]:
    """Yield each call with arguments for which it is refused."""
    for bit in NAMESPACES:
        yield "clone", [_has(0, bit)]
    for request in TERMINAL:
        yield "ioctl", [_equals(1, request)]
    for name in _known(tuple(MODES)):
        yield from ((name, [_has(MODES[name], bit)]) for bit in PRIVILEGED)
    for name in _known(tuple(CREATING)):
        flags, mode = CREATING[name]
        yield from ((name, [_has(flags, make), _has(mode, bit)]) for make in MAKES_FILE for bit in PRIVILEGED)


def _sockets(found: Filter) -> None:
    """Let sockets be of this host's own processes, of IP but raw, and of netlink's routes."""
    found.allow("socket", args=[_equals(0, _UNIX)])
    found.allow("socket", args=[_equals(0, _NETLINK), _equals(2, 0)])
    for kind in (_RAW, _PACKET):
        found.errno("socket", errno.EPERM, args=[_equals(1, kind, _TYPE)])
    for family in (_INET, _INET6):
        found.allow("socket", args=[_equals(0, family)])
    found.errno("socket", errno.EPERM)
    found.allow("socketpair", args=[_equals(0, _UNIX)])
    found.errno("socketpair", errno.EPERM)


def _has(index: int, bit: int) -> ArgCmp:
    return _equals(index, bit, bit)


def _equals(index: int, value: int, mask: int = _INT) -> ArgCmp:
    from seccompy import ArgCmp, CmpOp

    return ArgCmp(index, CmpOp.MASKED_EQ, value, mask)
