"""From an errno to the name of what was wrong with a launch.

Owns the look at the file system after a failed start: the kernel says ENOENT for a missing program, a
missing interpreter and a missing directory alike. It must not know how the start was tried.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

from execzmq.keeper.launch import MAX_STRING_BYTES, Launch, SpawnError, show

_RESOURCE_REASONS = {
    errno.EMFILE: ("too_many_descriptors", "the keeper has no descriptor left"),
    errno.ENFILE: ("too_many_descriptors", "the system has no descriptor left"),
    errno.ENOMEM: ("no_memory", "there is not enough memory to start a process"),
    errno.EAGAIN: ("try_again", "the limit on the number of processes is reached"),
    errno.ENOSPC: ("no_terminal", "the system has no pseudo-terminal left"),
}
_DEFAULT_PATH = os.fsencode(os.defpath)
_PT_INTERP = 3


def candidates(launch: Launch) -> list[bytes]:
    """List the paths at which the program is tried, in order; relative ones are relative to the cwd."""
    program = launch.argv[0]
    if b"/" in program:
        return [program]
    search = launch.env.get(b"PATH", _DEFAULT_PATH)
    return [folder + b"/" + program if folder else program for folder in search.split(b":")]


def explain(launch: Launch, step: str, number: int) -> SpawnError:
    """Name the reason why a step of the start (`cwd`, `exec`, `limits`, …) failed with this errno."""
    if number in _RESOURCE_REASONS:
        reason, words = _RESOURCE_REASONS[number]
        return SpawnError(reason, number, words)
    if step == "exec":
        return _explain_cwd(launch) or _explain_exec(launch, number)
    if step == "cwd":
        cwd = _shown_cwd(launch)
        return _explain_cwd(launch) or _other(f"cannot enter {cwd}", "cwd_denied", number, cwd=cwd)
    if step == "limits":
        return _other("a limit cannot be set", "limit_refused", number)
    return _other(f"the start failed at {step!r}", "spawn_failed", number, step=step)


def _other(words: str, reason: str, number: int, **details: str) -> SpawnError:
    return SpawnError(reason, number, f"{words}: {os.strerror(number)}", details)


def _shown_cwd(launch: Launch) -> str:
    return show(launch.cwd or b"/")


def _explain_cwd(launch: Launch) -> SpawnError | None:
    """Say what is wrong with the working directory, None if nothing is."""
    cwd = launch.cwd
    if cwd is None:
        return None
    details = {"cwd": show(cwd)}
    try:
        mode = os.stat(cwd).st_mode
    except PermissionError as exc:
        return SpawnError("cwd_denied", exc.errno, f"cwd {show(cwd)} cannot be entered", details)
    except OSError as exc:
        return SpawnError("cwd_missing", exc.errno, f"cwd {show(cwd)} does not exist", details)
    if not stat.S_ISDIR(mode):
        return SpawnError("cwd_not_directory", errno.ENOTDIR, f"cwd {show(cwd)} is not a directory", details)
    if not os.access(cwd, os.X_OK):
        return SpawnError("cwd_denied", errno.EACCES, f"cwd {show(cwd)} cannot be entered", details)
    return None


def _explain_exec(launch: Launch, number: int) -> SpawnError:
    program = show(launch.argv[0])
    if number == errno.E2BIG:
        return _too_long(launch)
    if number in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return _explain_missing(launch, program, number)
    if number == errno.EACCES:
        return _explain_denied(launch, program)
    path = _first_existing(launch)
    details = {"program": program, "path": show(path or launch.argv[0])}
    if number == errno.ENOEXEC:
        words = f"{program} is not in a format that the kernel can run (a script needs a #! line)"
        return SpawnError("bad_format", number, words, details)
    return SpawnError("exec_failed", number, f"{program} cannot be run: {os.strerror(number)}", details)


def _too_long(launch: Launch) -> SpawnError:
    """The sum is too long: each single string has been checked before."""
    total = sum(len(argument) + 1 for argument in launch.argv)
    total += sum(len(name) + len(value) + 2 for name, value in launch.env.items())
    return SpawnError(
        "argument_too_long",
        errno.E2BIG,
        f"argv and env are too long together: {total} bytes (limit {MAX_STRING_BYTES} bytes per string)",
        {"entry": "total", "size": total, "limit": MAX_STRING_BYTES},
    )


def _explain_missing(launch: Launch, program: str, number: int) -> SpawnError:
    path = _first_existing(launch)
    if path is None:
        searched = "" if b"/" in launch.argv[0] else " in PATH"
        return SpawnError("not_found", number, f"{program} was not found{searched}", {"program": program})
    interpreter = _interpreter(path)
    details = {"program": program, "path": show(path), "interpreter": interpreter}
    words = f"the interpreter of {show(path)} was not found: {interpreter!r}"
    return SpawnError("interpreter_not_found", number, words, details)


def _explain_denied(launch: Launch, program: str) -> SpawnError:
    path = _first_existing(launch)
    details = {"program": program, "path": show(path or launch.argv[0])}
    if path is not None and os.path.isdir(path):
        return SpawnError("is_directory", errno.EACCES, f"{program} is a directory", details)
    return SpawnError("not_executable", errno.EACCES, f"{program} may not be executed", details)


def _first_existing(launch: Launch) -> bytes | None:
    """Find the file that was meant: a candidate that is no directory is preferred."""
    paths = [os.path.join(launch.cwd or b"/", path) for path in candidates(launch)]
    existing = [path for path in paths if os.path.exists(path)]
    files = [path for path in existing if not os.path.isdir(path)]
    return next(iter(files or existing), None)


def _interpreter(path: bytes) -> str:
    """Read whom a script or a program names as its interpreter; empty if that cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return ""
    if head.startswith(b"#!"):
        line = head[2:256].split(b"\n", 1)[0].lstrip(b" \t")
        return show(line.split(b" ", 1)[0].split(b"\t", 1)[0])
    return show(_elf_interpreter(head))


def _elf_interpreter(head: bytes) -> bytes:
    """Find the loader's path in the program headers of a 64-bit little-endian ELF file."""
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return b""
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for start in range(table, table + size * count, size or 1):
        if start + 40 > len(head):
            break
        (kind,) = struct.unpack_from("<I", head, start)
        if kind == _PT_INTERP:
            (offset,) = struct.unpack_from("<Q", head, start + 8)
            (length,) = struct.unpack_from("<Q", head, start + 32)
            return head[offset : offset + length].rstrip(b"\0")
    return b""
