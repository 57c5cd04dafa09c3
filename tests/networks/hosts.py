"""Own hosts on this machine: network namespaces, and mount namespaces where they shall see other files.

Knows nothing of execzmq. A host lives as long as its holder, a program that waits for the end of its stdin:
it is gone with this process, however that ends, and its links are gone with it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

TOOLS = ("ip", "unshare", "nsenter")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
"""Where the tools are: an ordinary user's own path often leaves those of an administrator out."""
_AS_ROOT = ("--user", "--map-root-user")


class Host:
    """One host.

    Args:
        within: what is put before a command line to run it where hosts are made.
        hidden: folders that are empty for the programs of this host; `None` = it sees what this process sees,
            and counts as the same machine for execzmq.
    """

    def __init__(self, within: Sequence[str], hidden: Sequence[Path] | None) -> None:
        self._kinds = ["--net"] if hidden is None else ["--net", "--mount"]
        self._user = ["--user", "--preserve-credentials"] if within else []
        self._holder = _hold([*within, tool("unshare"), *self._kinds])
        try:
            self.do("ip", "link", "set", "lo", "up")
            for folder in hidden or ():
                self.do("mount", "-t", "tmpfs", "-o", "mode=0700", "none", str(folder))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Return the pid of the holder, by whose namespaces others find this host."""
        return self._holder.pid

    @property
    def enter(self) -> tuple[str, ...]:
        """Return what is put before a command line to run it here; the pid stays that of the command."""
        return (tool("nsenter"), "--target", str(self.pid), *self._user, *self._kinds, "--")

    @property
    def enter_beside(self) -> tuple[str, ...]:
        """Return the same for programs of another one of these hosts, who are in their user namespace."""
        return (tool("nsenter"), "--target", str(self.pid), *self._kinds, "--")

    def do(self, *words: str, told: str | None = None) -> str:
        """Run one command here to its end and return what it says; it must not fail."""
        argv = [*self.enter, tool(words[0]), *words[1:]]
        done = subprocess.run(argv, input=told, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        """Be gone, when the last program here is; idempotent."""
        _let_go(self._holder)


@contextlib.contextmanager
def made(count: int, hidden: Sequence[Path]) -> Iterator[list[Host]]:
    """Make a host that shares this process's files, and `count` others to which `hidden` is not there.

    Those of somebody who may not make any are in a user namespace of their own, in which that user is root.
    """
    with contextlib.ExitStack() as stack:
        within: list[str] = []
        if options := _rights():
            root = _hold([tool("unshare"), *options])
            stack.callback(_let_go, root)
            within = [tool("nsenter"), "--target", str(root.pid), "--user", "--preserve-credentials", "--"]
        hosts = []
        for number in range(count + 1):
            hosts.append(Host(within, hidden if number else None))
            stack.callback(hosts[-1].close)
        yield hosts


@functools.cache
def tool(name: str) -> str:
    """Return the path of a tool, or its name where it is missing."""
    return shutil.which(name, path=_PATH) or name


@functools.cache
def why_not() -> str | None:
    """Say why there can be no hosts here; `None` = there can."""
    missing = [name for name in TOOLS if not shutil.which(name, path=_PATH)]
    if missing:
        return f"{', '.join(missing)} missing: install iproute2 and util-linux"
    return "this machine lets nobody make a network namespace" if _rights() is None else None


@functools.cache
def why_no_loss() -> str | None:
    """Say why no packets can be lost here; `None` = they can."""
    if why_not() is not None:
        return why_not()
    if not shutil.which("nft", path=_PATH):
        return "nft missing: install nftables"
    rule = "table inet t { chain c { type filter hook input priority 0; numgen random mod 100 < 1 drop; }; }"
    with made(0, ()) as [host]:
        try:
            host.do("nft", "-f", "-", told=rule)
        except AssertionError as error:
            return f"this kernel cannot lose packets at random: {error}"
    return None


@functools.cache
def why_no_delay() -> str | None:
    """Say why no packets can be delayed here; `None` = they can."""
    if why_not() is not None:
        return why_not()
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"no TUN devices here: {error}"
    return None


@functools.cache
def _rights() -> tuple[str, ...] | None:
    """Return the options with which this user may make hosts; `None` = not at all."""
    for options in ((), _AS_ROOT):
        words = [tool("unshare"), *options, "--net", "--mount", "true"]
        if subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            return options
    return None


def _hold(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program in new namespaces that does nothing until its stdin ends; they are there on return."""
    holder = subprocess.Popen(
        [*words, "sh", "-c", "echo ready && exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != b"ready\n":
        _let_go(holder)
        raise AssertionError(f"{words} made no namespace")
    return holder


def _let_go(holder: subprocess.Popen[bytes]) -> None:
    holder.communicate()
