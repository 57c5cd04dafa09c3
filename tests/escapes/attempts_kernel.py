"""Attempts at the kernel, at processes and at what can be connected to."""

import platform
import signal

from execzmq.keeper import landlock
from tests.escapes.attempts import BOTH, HOST, NEVER, Attempt

_CALLS = """#python
def refused(name, *args):
    done = call(name, *args)
    print("stopped" if done in (-errno.EPERM, -errno.ENOSYS) else "through", name, done)
"""

KERNEL: tuple[Attempt, ...] = (
    Attempt(
        "11",
        "mount something anew, read-write, or unmount what hides",
        "mount -o remount,rw,bind /; echo x > $OUT/w11; mount -o remount,rw,bind $OUT; echo x > $OUT/w11;"
        "umount -l $WS/.git; umount -l $RUN; cat $CONNECTION; mount --bind $WS/lnk $WS/sub;"
        "mount --make-rshared /; mount -t tmpfs none $WS/sub && echo through",
        lambda r: (r.site.out / "w11").exists() or r.says("11") or r.shows("key"),
        plain=False,
    ),
    Attempt(
        "14",
        "make a user namespace, and mount in it",
        "unshare -Urm sh -c 'mount -o remount,rw,bind /; echo x > $OUT/w14; umount -l $RUN; cat $CONNECTION';"
        "nsenter -t 1 -U -m sh -c 'echo through'; nsenter -t 1 -p -n sh -c 'echo through'",
        lambda r: (r.site.out / "w14").exists() or r.says("14"),
        plain=False,
    ),
    Attempt(
        "15",
        "make a user namespace at all",
        "unshare -Ur true && echo through; unshare -U true && echo through",
        lambda r: r.says("15"),
    ),
    Attempt(
        "15b",
        "make namespaces by the calls themselves",
        _CALLS + "refused('unshare', 0x10000000)\n"
        "if 'clone' in FACTS['calls']: refused('clone', 0x10000000 | 17, 0, 0, 0, 0)\n"
        "refused('clone3', 0, 0)\n"
        "for name in ('user', 'mnt', 'net', 'pid', 'cgroup'):\n"
        "    tell('open ' + name, lambda: refused('setns', os.open('/proc/1/ns/' + name, 0), 0))\n",
        lambda r: (
            "through unshare" in r.answers["15b"].text
            or "through clone" in r.answers["15b"].text
            or "through setns" in r.answers["15b"].text
        ),
        plain=False,
    ),
    Attempt(
        "23",
        "gain by set-uid programs",
        "grep -q 'NoNewPrivs:.1' /proc/self/status || echo through; "
        "grep Cap /proc/self/status | grep -v 0000000000000000 && echo through",
        lambda r: r.says("23"),
        plain=False,
    ),
    Attempt(
        "24",
        "open a file by its handle",
        _CALLS + "handle = ctypes.create_string_buffer(struct.pack('IIQ', 8, 1, 2) + bytes(64))\n"
        "refused('open_by_handle_at', os.open('/', os.O_RDONLY), handle, 0)",
        lambda r: r.says("24"),
        plain=False,
    ),
    Attempt(
        "33",
        "the kernel's own tools",
        _CALLS + "for name in ('keyctl', 'add_key', 'request_key', 'bpf', 'perf_event_open', 'userfaultfd',\n"
        "             'io_uring_setup', 'open_tree', 'fsopen', 'syslog', 'kexec_load', 'swapon', 'reboot'):\n"
        "    refused(name, 0, 0, 0, 0, 0)",
        lambda r: r.says("33"),
        plain=False,
    ),
    Attempt(
        "35",
        "trace, or read the memory of, a process of the host",
        "cat /proc/$HOSTPID/environ /proc/$HOSTPID/cmdline /proc/*/environ | tr '\\0' '\\n'",
        lambda r: r.shows("memory"),
    ),
    Attempt(
        "35b",
        "trace by the calls themselves",
        _CALLS + "pid = int(os.environ['HOSTPID'])\n"
        "for target in (pid, 1, os.getppid()): refused('ptrace', 16, target, 0, 0)\n"
        "refused('process_vm_readv', pid, 0, 0, 0, 0, 0); refused('pidfd_getfd', 0, 0, 0)",
        lambda r: r.says("35b"),
        plain=False,
    ),
    Attempt(
        "37",
        "kill or stop the sandbox's own pid 1",
        "for s in KILL STOP TERM INT SEGV ABRT; do kill -$s 1; done; kill -0 1 && echo alive",
        lambda r: "alive" not in r.answers["37"].text,
        plain=False,
    ),
    Attempt(
        "40",
        "type into a terminal",
        """#python
import termios
for path in ("/dev/stdin", "/dev/tty", "/dev/console", "/dev/tty1", "/proc/1/fd/0", "/proc/1/fd/2"):
    for request in (termios.TIOCSTI, 0x541C):
        tell(f"{path} {request}", lambda: fcntl.ioctl(os.open(path, os.O_RDWR | os.O_NOCTTY), request, b"x"))
""",
        lambda r: r.says("40"),
        plain=False,
    ),
    Attempt(
        "45",
        "sockets of other families",
        """#python
raw, packet = ((2, 3, 1), (2, 10, 0), (10, 3, 58)), ((17, 3, 3), (17, 2, 3))
netlink = ((16, 3, 15), (16, 3, 12), (16, 3, 9))
others = ((40, 1, 0), (38, 5, 0), (44, 2, 0), (29, 3, 1), (31, 3, 1), (15, 3, 2))
for family, kind, protocol in raw + packet + netlink + others:
    tell((family, kind, protocol), lambda: socket.socket(family, kind, protocol).close())
""",
        lambda r: r.says("45"),
        plain=False,
    ),
    Attempt(
        "45b",
        "a socket of netlink's routes, which names of interfaces come from",
        "#python\ntell('route', lambda: socket.socket(16, 3, 0).close())",
        lambda r: r.says("45b"),
        BOTH,
    ),
    Attempt(
        "55",
        "dump a core into the workspace",
        "cd $WS; ulimit -c unlimited; sh -c 'kill -ABRT $$'",
        lambda r: any("core" in name for name in r.site.files()),
        plain=False,
    ),
    Attempt(
        "67",
        "gain by writing to the memory of pid 1, which may have no more rights than the command",
        "grep -q 'Seccomp:.2' /proc/1/status || echo through; "
        "grep Cap /proc/1/status | grep -v 0000000000000000 && echo through",
        lambda r: r.says("67"),
        plain=False,
    ),
    Attempt(
        "67b",
        "write into pid 1 before it has its filter on",
        """#python
def take(path):
    start = int(open("/proc/1/maps").readline().split("-")[0], 16)
    fd = os.open(path, os.O_RDWR)
    if not os.pread(fd, 1, start):
        raise OSError("nothing there")

for path in ("/proc/1/mem", "/proc/1/task/1/mem"):
    tell(path, lambda: take(path))
""",
        lambda r: r.says("67b"),
        plain=False,
    ),
    Attempt(
        "80",
        "make a sandbox in the sandbox",
        "bwrap --ro-bind / / true && echo through; bwrap --unshare-all --ro-bind / / true && echo through",
        lambda r: r.says("80"),
        plain=False,
    ),
)
if platform.machine() == "x86_64":
    KERNEL += (
        Attempt(
            "76",
            "system calls by the numbers of x32",
            "#python\nlibc.syscall(0x40000027)\nprint('through')",
            lambda r: r.answers["76"].code != -signal.SIGSYS,
            plain=False,
        ),
    )

ALONE = (
    Attempt(
        "41",
        "connect to a port of the host, without a network",
        "#python\ntell('tcp', lambda: connect(socket.AF_INET, ('127.0.0.1', FACTS['tcp'])))",
        lambda r: "tcp" in r.reached,
    ),
    Attempt(
        "42",
        "connect to an abstract socket of the host, without a network",
        "#python\ntell('abstract', lambda: connect(socket.AF_UNIX, '\\0' + os.environ['ABSTRACT']))",
        lambda r: "abstract" in r.reached,
    ),
    Attempt(
        "43",
        "look up a name, without a network",
        "getent hosts example.com && echo through",
        lambda r: r.says("43"),
        plain=False,
    ),
    Attempt(
        "44",
        "send a datagram, without a network",
        """#python
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    tell("near", lambda: one.sendto(b"x", ("127.0.0.1", FACTS["udp"])))
    try:
        print("left", one.sendto(b"x", ("192.0.2.1", 53)))
    except OSError as error:
        print("kept", error)
""",
        lambda r: "udp" in r.reached or (r.mode != "unconfined" and "left" in r.answers["44"].text),
    ),
)
"""With no network."""

TOGETHER = (
    Attempt(
        "47",
        "connect to a port of the host, in the host's network",
        "#python\ntell('tcp', lambda: connect(socket.AF_INET, ('127.0.0.1', FACTS['tcp'])))",
        lambda r: "tcp" in r.reached,
        BOTH,
    ),
    Attempt(
        "48",
        "connect to an abstract socket of the host, in the host's network",
        "#python\ntell('abstract', lambda: connect(socket.AF_UNIX, '\\0' + os.environ['ABSTRACT']))",
        lambda r: "abstract" in r.reached,
        NEVER if landlock.can_scope() else BOTH,
    ),
)
"""With the host's network."""

ANYWHERE = (
    Attempt(
        "49",
        "connect to the server's own sockets",
        "#python\nfor path in FACTS['sockets']: tell(path, lambda: connect(socket.AF_UNIX, path))",
        lambda r: r.says("49"),
    ),
    Attempt(
        "61",
        "connect to a socket file of the host's on a path that is not hidden",
        "#python\ntell('unix', lambda: connect(socket.AF_UNIX, OUT + '/sock'))",
        lambda r: "unix" in r.reached,
        frozenset({HOST}),
    ),
    Attempt(
        "34",
        "see and kill a process of the host",
        "kill -9 $HOSTPID",
        lambda r: r.site.victim.poll() is not None,
    ),
)
"""With either."""
