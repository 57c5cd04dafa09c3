"""Own how a sandbox gets the internet without this host's loopback: by slirp4netns. Pure.

That is a network stack as a process: it carries what a device inside of the sandbox's network says to sockets
outside. Who owns its life:

* **The keeper spawns it**, as a companion of the command (`companion_of`: no client can choose an id with a
  dot). So it survives the server, is handed over like any command, and is reaped; its end while the command
  lives is told, and is worth a notice: the network is gone then. A server that is handed a companion whose
  command it does not have abandons it.
* **It ends with the command.** `exit` is the reading end of a pipe; the keeper holds the writing end, under
  the name `HELD`, with the *command*. When the command's first process has ended, the server closes that
  name; where nobody does, the end of keeper and server closes it.
* **It is given descriptors, never a process id**: the network namespace, and the user namespace that owns it
  (of a sandbox with --disable-userns not that of its processes). It needs no right that this user has not.
* **It starts after `has_loopback`**, or it brings the loopback up under bwrap's hands, which then fails (5 of
  25 starts). It writes `1` to `ready` when the network is there (about 10 ms); an end instead means that it
  failed, and stderr says why. Only then is the command released.

What it lets through: everything that this host reaches, other hosts of its networks and this host's own
addresses but for the loopback included, and so what a server listens on there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from execzmq.errors import SandboxUnavailable

PROGRAMS = (b"/usr/bin/slirp4netns", b"/usr/local/bin/slirp4netns")
"""Where it is looked for: never in a PATH, which may be the client's."""
TUN = "/dev/net/tun"

PASSED = {"netns": 3, "userns": 4, "exit": 5, "ready": 6}
"""Descriptors that it is given, by name, and their numbers."""
HELD = "internet"
_ENDING = ".net"

RESOLV_CONF = b"nameserver 10.0.2.3\n"
"""The sandbox's /etc/resolv.conf: it asks the host's name servers, on the host's loopback too."""


def find(programs: Sequence[bytes] = PROGRAMS, tun: str = TUN) -> bytes:
    """Return the program.

    Raises:
        SandboxUnavailable: it is not installed, or may not make a device here.
    """
    program = next((path for path in programs if os.access(path, os.X_OK)), None)
    if program is None:
        raise SandboxUnavailable(
            "network 'internet' needs slirp4netns, which is not in /usr/bin: install the package "
            "slirp4netns, or use network 'proxy'",
            reason="slirp_not_found",
        )
    if not os.access(tun, os.R_OK | os.W_OK):
        raise SandboxUnavailable(
            f"network 'internet' needs {tun}, which this user cannot open: load the module tun and make it "
            "0666, or use network 'proxy'",
            reason="tun_not_usable",
        )
    return program


def argv(program: bytes, *, is_root: bool) -> tuple[bytes, ...]:
    """Write the command line; the descriptors of `PASSED` are at their numbers.

    Args:
        program: as `find` returned it.
        is_root: the server is root: it drops what root may, which it cannot do (and need not) otherwise.
    """
    words = ["--configure", "--mtu=65520", "--disable-host-loopback", "--enable-seccomp"]
    if is_root:
        words.append("--enable-sandbox")
    words += [f"--exit-fd={PASSED['exit']}", f"--ready-fd={PASSED['ready']}"]
    words += ["--netns-type=path", f"--userns-path=/proc/self/fd/{PASSED['userns']}"]
    words += [f"/proc/self/fd/{PASSED['netns']}", "tap0"]
    return program, *map(os.fsencode, words)


def companion_of(process_id: str) -> str:
    """Return the id by which the keeper knows the network of a process."""
    return process_id + _ENDING


def is_companion(process_id: str) -> bool:
    """Tell whether an id is that of a network."""
    return process_id.endswith(_ENDING)


def has_loopback(fib_trie: str) -> bool:
    """Tell from /proc/PID/net/fib_trie of the sandbox's first process whether bwrap has made its loopback."""
    return "127.0.0.1" in fib_trie
