"""An ssh server of the test's own on a loopback address, and a user of it who has one key."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.homes import FOLDERS
from tests.support import deadline, wait_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")

CONFIG = """
ListenAddress {address}:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
"""

CLIENT = """
IdentityFile {folder}/user
IdentitiesOnly yes
UserKnownHostsFile {folder}/known
StrictHostKeyChecking yes
GlobalKnownHostsFile none
"""


class SshServer:
    """A machine to log in to: this one, with folders of its own for its user.

    Args:
        root: a folder with a short name for all of it.
        address: where it listens.
        wrap: words before those of the server, such as those that enter a network.
        home: the user's, with all folders of `FOLDERS`; `None` = a new one.
    """

    def __init__(
        self, root: Path, address: str = "127.0.0.1", wrap: Sequence[str] = (), home: Path | None = None
    ) -> None:
        self.folder = root / "sshd"
        self.home = root / "o" if home is None else home
        self.address = address
        self._wrap = wrap
        self.port = _free_port() if address == "127.0.0.1" else 22022
        self.folder.mkdir(mode=0o700)
        for name in (".", *FOLDERS.values()) if home is None else ():
            (self.home / name).mkdir(mode=0o700)
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(words, check=True, timeout=deadline(20).left())
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        self.know((self.folder / "host.pub").read_text())
        places = {"folder": self.folder, "address": address, "port": self.port}
        (self.folder / "config").write_text(CONFIG.format(**places))
        (self.folder / "client").write_text(CLIENT.format(**places))
        self._put_ssh_before_the_other(root / "bin")
        self.start()

    @property
    def command(self) -> str:
        """Return how execzmq is called there: with the folders that its user has there."""
        folders = " ".join(f"{variable}={self.home / name}" for variable, name in FOLDERS.items())
        return f"env {folders} {sys.executable} -m execzmq"

    def environment(self, **fields: str) -> str:
        """Return the table of an environment `box` that is here."""
        chosen = {"ssh": self.address, "command": self.command, **fields}
        lines = "".join(f"{key} = '{value}'\n" for key, value in chosen.items())
        return f"[box]\n{lines}port = {self.port}\n"

    def know(self, key: str) -> None:
        """Make this key the one by which the user knows the machine; an empty one is none."""
        (self.folder / "known").write_text(f"[{self.address}]:{self.port} {key}" if key else "")

    def start(self) -> None:
        """Begin to listen."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        log = self.folder / "log"
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*self._wrap, str(SSHD), "-D", "-e", "-f", str(self.folder / "config")],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        wait_until(lambda: b"Server listening on" in log.read_bytes() or self._process.poll() is not None)
        assert self._process.poll() is None, log.read_text()

    def stop(self) -> None:
        """Listen no more, and end all connections."""
        pids = self.connections()
        self._process.terminate()
        self._process.wait(deadline(10).left())
        _kill(pids)

    def cut(self) -> None:
        """End all connections, as a machine that is reset does."""
        _kill(self.connections())

    def connections(self) -> list[int]:
        """Return the processes that serve a connection; two for each where root listens."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return [pid for pid in pids if _read(pid, "comm").startswith(b"sshd") and self._began(pid)]

    def _began(self, pid: int) -> bool:
        while pid > 1:
            pid = _parent(pid)
            if pid == self._process.pid:
                return True
        return False

    def shut_down(self) -> None:
        """End the servers that were started there."""
        words = ["/bin/sh", "-c", f"{self.command} shutdown --all"]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=deadline(30).left())

    def close(self) -> None:
        """End it and its connections; idempotent."""
        if self._process.poll() is None:
            self.stop()

    def _put_ssh_before_the_other(self, folder: Path) -> None:
        """Let `ssh` be one that has its user's configuration: that is not found by HOME."""
        folder.mkdir()
        script = folder / "ssh"
        script.write_text(f'#!/bin/sh\nexec {SSH} -F {self.folder / "client"} "$@"\n')
        script.chmod(0o755)
        self.path = f"{folder}:{os.environ['PATH']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(_read(pid, "cmdline") for pid in pids))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if fields else 0
