"""The internet without this host's loopback: the program, its command line, and a real sandbox with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from execzmq.errors import SandboxUnavailable
from execzmq.sandbox import slirp
from tests.keeper.gates import BWRAP
from tests.sandbox.internet import HOST
from tests.support import deadline, program_env

NEEDED = ["/usr/bin/slirp4netns", BWRAP, "/usr/bin/unshare"]


def test_missing_program_says_what_to_install(tmp_path: Path) -> None:
    """It is looked for in fixed places; PATH is not among them."""
    with pytest.raises(SandboxUnavailable, match="install the package slirp4netns"):
        slirp.find([os.fsencode(tmp_path / "slirp4netns")])
    assert all(path.startswith(b"/usr/") for path in slirp.PROGRAMS)


def test_closed_device_says_what_to_open(tmp_path: Path) -> None:
    """A program alone is not enough."""
    with pytest.raises(SandboxUnavailable, match="load the module tun"):
        slirp.find([os.fsencode(sys.executable)], str(tmp_path / "tun"))
    device = tmp_path / "tun"
    device.touch()
    assert slirp.find([b"/none", os.fsencode(sys.executable)], str(device)) == os.fsencode(sys.executable)


@pytest.mark.parametrize("is_root", [False, True])
def test_command_line(is_root: bool) -> None:
    """The host's loopback is always shut; namespaces come by descriptor; root drops its rights."""
    words = slirp.argv(b"/usr/bin/slirp4netns", is_root=is_root)
    assert words[0] == b"/usr/bin/slirp4netns"
    assert {b"--disable-host-loopback", b"--configure", b"--enable-seccomp"} <= set(words)
    assert (b"--enable-sandbox" in words) == is_root
    assert words[-2:] == (b"/proc/self/fd/3", b"tap0")
    assert b"--userns-path=/proc/self/fd/4" in words


def test_companion_is_nobodys_process_id() -> None:
    """A client's ids have no dot."""
    assert slirp.companion_of("train-7") == "train-7.net"


def test_loopback_is_seen_in_the_kernels_table() -> None:
    """An empty network has an empty table."""
    assert not slirp.has_loopback("")
    assert slirp.has_loopback(Path("/proc/self/net/fib_trie").read_text())


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network that stands for a host")
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}")
def test_host_is_reached_but_for_its_loopback_escape_78() -> None:
    """A real sandbox reaches an address of the host and not its 127.0.0.1; the companion ends with it."""
    network = f"ip link set lo up && ip address add {HOST}/32 dev lo"
    program = f"exec {sys.executable} -m tests.sandbox.internet"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f"{network} && {program}"],
        env=program_env(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=deadline(30).left(),
        check=False,
    )
    assert done.stdout.splitlines() == [
        "ready b'1'",
        f"{HOST} hello",
        "10.0.2.2 OSError 101",
        "127.0.0.1 ConnectionRefusedError 111",
        "companion ended",
    ]
    assert done.returncode == 0
