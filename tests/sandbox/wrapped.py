"""A bare bubblewrap with the arguments of the design and a small filter: no server, no view, nothing kept."""

import errno
import os
import platform
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from execzmq.sandbox.model import Access
from execzmq.sandbox.wrapper import find

TMP_BYTES = 8 << 20
ETC = "alternatives group hosts ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf passwd resolv.conf ssl"
# x86_64: mount umount2 pivot_root chroot setns unshare ptrace process_vm_readv process_vm_writev keyctl
# add_key bpf perf_event_open userfaultfd
REFUSED = (165, 166, 155, 161, 308, 272, 101, 310, 311, 250, 248, 321, 298, 323)
MISSING = (425, 426, 427, 435, 437)  # io_uring_setup io_uring_enter io_uring_register clone3 openat2
MODES = {90: 1, 91: 1, 268: 2}  # chmod fchmod fchmodat: which argument is the mode
NEW_NAMESPACES = 0x7E020000
CLONE = 56


@dataclass(frozen=True)
class Bare:
    """What one bare sandbox shows; `mounts` in the order in which they are made."""

    mounts: tuple[tuple[bytes, Access], ...]
    read: Literal["host", "minimal"] = "host"
    has_network: bool = False


def run(bare: Bare, script: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a script of the shell in it, to its end."""
    program = os.memfd_create("filter")
    try:
        os.write(program, _filter())
        os.lseek(program, 0, os.SEEK_SET)
        words = [*_arguments(bare, program), "--clearenv"]
        for name, value in env.items():
            words += ["--setenv", name, value]
        words += ["--chdir", str(cwd), "--", "/bin/sh", "-c", script]
        return subprocess.run(
            ["bwrap", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            executable=find().path,
            cwd="/",
            pass_fds=[program],
            timeout=50,
        )
    finally:
        os.close(program)


def _arguments(bare: Bare, program: int) -> Iterator[str]:
    yield from ["--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
    yield from ["--hostname", "localhost", "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session"]
    if not bare.has_network:
        yield "--unshare-net"
    yield from _base(bare)
    yield from f"--dev /dev --size {TMP_BYTES} --tmpfs /dev/shm --remount-ro /dev".split()
    yield from ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    yield from f"--size {TMP_BYTES} --perms 1777 --tmpfs /tmp".split()
    yield from f"--size {TMP_BYTES} --perms 1777 --tmpfs /var/tmp".split()
    yield from ["--perms", "755", "--tmpfs", "/run", "--remount-ro", "/run"]
    for name, access in bare.mounts:
        path = os.fsdecode(name)
        if access == "deny":
            yield from ("--perms", "000", "--tmpfs", path, "--remount-ro", path)
        else:
            yield from ("--bind" if access == "write" else "--ro-bind", path, path)
    if bare.read == "minimal":
        yield from ("--remount-ro", "/")
    if platform.machine() == "x86_64":
        yield from ("--seccomp", str(program))


def _base(bare: Bare) -> Iterator[str]:
    if bare.read == "host":
        yield from ("--ro-bind", "/", "/")
        return
    yield from ("--tmpfs", "/", "--ro-bind", "/usr", "/usr", "--dir", "/var", "--dir", "/etc")
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            yield from ("--symlink", os.readlink(name), name)
        elif os.path.isdir(name):
            yield from ("--ro-bind", name, name)
    for name in ETC.split():
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _filter() -> bytes:
    """Return the filter: refuse some calls, set-id bits and new namespaces; let all else through."""
    refuse, allow = 0x50000 | errno.EPERM, 0x7FFF0000
    rules = [(call, refuse) for call in REFUSED] + [(call, 0x50000 | errno.ENOSYS) for call in MISSING]
    code = [_step(0x20, 0)]
    for call, answer in rules:
        code += [_step(0x15, call, 0, 1), _step(0x06, answer)]
    for call, argument in MODES.items():
        code += [_step(0x15, call, 0, 3), _step(0x20, 16 + 8 * argument), _step(0x45, 0o6000, 0, 1)]
        code += [_step(0x06, refuse), _step(0x20, 0)]
    code += [_step(0x15, CLONE, 0, 3), _step(0x20, 16), _step(0x45, NEW_NAMESPACES, 0, 1)]
    code += [_step(0x06, refuse), _step(0x06, allow)]
    return b"".join(code)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, operand)
