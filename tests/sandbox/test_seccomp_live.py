"""The filter of system calls on this kernel: what a command under it is answered, as root and as another."""

import errno
import json
import platform
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from execzmq.sandbox import seccomp
from tests.sandbox import inside
from tests.sandbox.numbers import NUMBERS

COLUMN = {"x86_64": 0, "aarch64": 1}.get(platform.machine())

pytestmark = pytest.mark.skipif(COLUMN is None, reason="no filter for this architecture")

CALLS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    words = [w.encode() if isinstance(w, str) else ctypes.c_long(w) for w in args]
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *words) < 0 else 0
print(json.dumps([call(*one) for one in json.loads(sys.argv[1])]))
"""
CWD, CREATE, NOT_THERE = -100, 0o101, "/tmp/no/such/place"


def number(name: str) -> int | None:
    """Return the number of a call on this machine."""
    assert COLUMN is not None
    return NUMBERS[name][COLUMN]


Call = tuple[str, Sequence[object]]


def answers(bwrap: str, python: str, uid: int, calls: list[Call]) -> dict[str, int]:
    """Make calls in one sandbox, in order; return the errno of each, leaving out those that are not here."""
    here = [(name, args) for name, args in calls if number(name) is not None]
    words = json.dumps([[number(name), *args] for name, args in here])
    program = seccomp.program(allow_debug=False)
    done = inside.run(bwrap, [python, "-I", "-S", "-c", CALLS, words], uid, program=program)
    assert done.returncode == 0, done.stderr
    return {f"{name} {args}": one for (name, args), one in zip(here, json.loads(done.stdout), strict=True)}


def test_refused(bwrap: str, python: str, uid: int) -> None:
    """The kernel's tools are refused, and what needs no right of its own as well (escapes 14, 15, 24, 33)."""
    calls: list[Call] = [(name, [0] * 6) for name in seccomp.REFUSED + seccomp.TRACING]
    assert set(answers(bwrap, python, uid, calls).values()) == {errno.EPERM}


def test_absent(bwrap: str, python: str, uid: int) -> None:
    """Calls that no filter can judge look as if the kernel lacked them."""
    calls: list[Call] = [(name, [0] * 6) for name in seccomp.ABSENT]
    assert set(answers(bwrap, python, uid, calls).values()) == {errno.ENOSYS}


def test_set_uid_files(bwrap: str, python: str, uid: int) -> None:
    """No call makes a set-uid file; the same calls make an ordinary one."""
    calls: list[Call] = [
        ("openat", [CWD, "/tmp/file", CREATE, 0o755]),
        ("openat", [CWD, "/tmp/other", CREATE, 0o4755]),
        ("openat", [CWD, "/tmp", 0o20200001, 0o4755]),
        ("openat", [CWD, "/tmp/file", 0, 0o4755]),  # nothing is made: the mode is whatever the register held
        ("open", ["/tmp/other", CREATE, 0o2755]),
        ("creat", ["/tmp/other", 0o4755]),
        *((name, ["/tmp/file", 0o4755]) for name in ("chmod", "mknod")),
        *((name, [CWD, "/tmp/file", 0o2755, 0]) for name in ("fchmodat", "fchmodat2", "mknodat")),
        ("mkdir", ["/tmp/folder", 0o2755]),  # a folder gets none of these bits from it
        ("mkdirat", [CWD, "/tmp/folder2", 0o2755]),
        ("fchmodat", [CWD, "/tmp/file", 0o1755]),
    ]
    found = answers(bwrap, python, uid, calls)
    passing = {name for name, number in found.items() if not number}
    assert passing == {str(f"{name} {args}") for name, args in (calls[0], calls[3], *calls[-3:])}
    assert {number for number in found.values() if number} == {errno.EPERM}


def test_sockets_and_terminals(bwrap: str, python: str, uid: int) -> None:
    """Sockets of other families and typing into a terminal are refused (escapes 40, 45)."""
    refused: list[Call] = [
        *(("socket", [family, 1, 0]) for family in (17, 38, 40, 30, 29)),
        *(
            ("socket", [2, 3, 1]),
            ("socket", [2, 10, 3]),
            ("socket", [16, 3, 4]),
            ("socketpair", [30, 1, 0, 0]),
        ),
        *(("ioctl", [0, 0x5412, 0]), ("ioctl", [0, 0x1_0000_5412, 0]), ("ioctl", [0, 0x541C, 0])),
        ("clone", [0x10000000 | 17, 0, 0, 0, 0]),
    ]
    assert set(answers(bwrap, python, uid, refused).values()) == {errno.EPERM}
    passing: list[Call] = [("socket", [1, 1, 0]), ("socket", [2, 1, 0])]
    passing += [("socket", [10, 2, 0]), ("socket", [16, 3, 0])]
    assert set(answers(bwrap, python, uid, passing).values()) <= {0, errno.EAFNOSUPPORT}  # no IPv6 here


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is of x86_64")
def test_x32_ends_with_sigsys(bwrap: str, python: str, uid: int) -> None:
    """A call by x32's numbers ends the process, here ptrace (escape 76)."""
    words = json.dumps([[0x40000000 + 521, 0, 0, 0, 0]])
    command = [python, "-I", "-S", "-c", CALLS, words]
    done = inside.run(bwrap, command, uid, program=seccomp.program(allow_debug=False))
    assert done.returncode == 128 + signal.SIGSYS


@pytest.mark.skipif(platform.machine() != "x86_64", reason="int 0x80 is of x86")
def test_int_80_ends_with_sigsys(bwrap: str, python: str, uid: int) -> None:
    """A call by the gate of 32 bits ends the process, here getpid (escape 76)."""
    gate = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""
    command = [python, "-I", "-S", "-c", gate]
    done = inside.run(bwrap, command, uid, program=seccomp.program(allow_debug=False))
    assert done.returncode == 128 + signal.SIGSYS, done.stdout
    assert inside.run(bwrap, command, uid).returncode in (
        0,
        -signal.SIGSEGV,
        139,
    )  # a kernel may lack the gate


WORK = """
import multiprocessing, os, pathlib, shutil, socket, subprocess, tempfile, threading
assert multiprocessing.get_context("fork").Pool(2).map(abs, [-1, -2]) == [1, 2]
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
assert socket.create_connection(server.getsockname()).recv(9) == b"hello"
assert [name for _, name in socket.if_nameindex()] == ["lo"]
assert socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
left, right = socket.socketpair()
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "tool").write_text("#!/bin/sh\\necho works\\n")
os.chmod(folder / "tool", 0o755)
assert subprocess.run([folder / "tool"], capture_output=True).stdout == b"works\\n"
shutil.copytree(folder, folder.with_name("copied"))
os.mkfifo(folder / "fifo")
print("done")
"""


def test_everyday_work_in_python(bwrap: str, python: str, uid: int) -> None:
    """Pools, a server on the loopback, interfaces, temporary files and programs work."""
    command = [python, "-I", "-c", WORK]
    done = inside.run(bwrap, command, uid, program=seccomp.program(allow_debug=False))
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("git", "cd /tmp && git init -q a && cd a && echo x > f && git add f && git status --short"),
        ("gcc", "cd /tmp && echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a"),
        ("node", "node -e 'const o = require(\"os\"); if (!o.networkInterfaces().lo) process.exit(1)'"),
        ("make", "cd /tmp && printf 'all: b\\nb:\\n\\ttouch b\\n' > Makefile && make -j4 && test -f b"),
        ("tar", "cd /tmp && mkdir t && touch t/f && tar cf t.tar t && tar xpf t.tar && tar tf t.tar"),
    ],
)
def test_everyday_tools(bwrap: str, uid: int, tool: str, line: str) -> None:
    """Tools that people use work as without a filter."""
    if not shutil.which(tool, path="/usr/bin:/bin"):
        pytest.skip(f"{tool} is not installed")
    options = ("--setenv", "HOME", "/tmp")
    command = ["/bin/sh", "-ec", line]
    done = inside.run(bwrap, command, uid, program=seccomp.program(allow_debug=False), options=options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_set_uid_file_is_left_on_the_host(bwrap: str, uid: int, workspace: Path) -> None:
    """A shell with a set-uid bit cannot be left in a workspace for whoever comes by."""
    line = f"cp /bin/true {workspace}/t; chmod u+s {workspace}/t; install -m 4755 /bin/true {workspace}/u"
    options = ("--bind", str(workspace), str(workspace))
    program = seccomp.program(allow_debug=False)
    done = inside.run(bwrap, ["/bin/sh", "-c", line], uid, program=program, options=options)
    assert done.stderr.count("Operation not permitted") == 2
    assert not [path for path in workspace.iterdir() if path.stat().st_mode & 0o6000]
