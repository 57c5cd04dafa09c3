"""A workspace with all that is beside it on the host which a command in a sandbox must not reach.

Owns the folders, sockets and processes that attempts are aimed at, until it is closed.
"""

import contextlib
import itertools
import json
import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from execzmq.sandbox.layers import OWN_FOLDERS, is_within
from tests.sandbox.numbers import NUMBERS
from tests.support import REPOSITORY, wait_until

PROFILES = """
[minimal]
extends = "workspace-write"
readable = ["minimal", {python}]
network = "host"
tmp = "16M"

[open]
extends = "workspace-write"
network = "host"
tmp = "16M"

[bounded]
extends = "workspace-write"
workspaces = [{workspace}]
"""
"""Profiles of the tests' own: both bases with as much network as a client may ask for; one with one root."""

_LIBRARY = Path("/var/lib")
_HOME = Path.home()
"""Of the user, before a test has a home of its own."""


def base_folder() -> Path:
    """Return a folder for tests of which a sandbox does not have one of its own, as it has of `/tmp`."""
    for folder in (_LIBRARY, _HOME, _home(), REPOSITORY):
        is_own = is_within(os.fsencode(folder.resolve()), OWN_FOLDERS)
        if not is_own and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise AssertionError("no folder outside of /tmp can be written: set a home for this user")


def _home() -> Path:
    """Return the home that the system knows, wherever variables point."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return REPOSITORY


class Site:
    """What one run of attempts is aimed at; `make` it, and `close` it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.ws, self.out, self.home = top / "ws", top / "out", top / "h"
        self.secrets = {name: f"{name}-{secrets.token_hex(8)}" for name in ("out", "ssh", "env", "shm", "fd")}
        self.secrets["memory"] = f"memory-{secrets.token_hex(8)}"
        self.abstract = f"execzmq-{secrets.token_hex(8)}"
        self._undoing = contextlib.ExitStack()
        for folder in (
            "out",
            "h/.ssh",
            "s",
            "r",
            "c/execzmq",
            "j",
            "ws/.git/hooks",
            "ws/sub/.git",
            "ws/a/.git",
        ):
            (top / folder).mkdir(mode=0o700, parents=True)
        self._fill()
        self._listen()
        self.victim = self._process(self.secrets["memory"])
        self.fd = os.open(self.out / "fd", os.O_RDWR)
        self.folder_fd = os.open(self.out, os.O_RDONLY)
        for fd in (self.fd, self.folder_fd):
            self._undoing.callback(os.close, fd)

    def _fill(self) -> None:
        (self.out / "secret").write_text(self.secrets["out"])
        (self.out / "fd").write_text(self.secrets["fd"])
        (self.out / "linked").write_text("before")
        (self.home / ".ssh/id").write_text(self.secrets["ssh"])
        (self.ws / "lnk").symlink_to("../out")
        (self.ws / "a/.git/config").write_text("before")
        os.link(self.out / "linked", self.ws / "linked")
        python = json.dumps(os.path.realpath(sys.base_prefix))
        profiles = self.top / "c/execzmq/profiles.toml"
        profiles.write_text(PROFILES.format(python=python, workspace=json.dumps(str(self.ws))))
        profiles.chmod(0o600)
        self.shm = Path("/dev/shm", f"execzmq-{secrets.token_hex(8)}")
        self.shm.write_text(self.secrets["shm"])
        self._undoing.callback(self.shm.unlink)

    def _listen(self) -> None:
        self._sockets = {
            "tcp": self._socket(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": self._socket(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "abstract": self._socket(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.abstract}"),
            "unix": self._socket(socket.AF_UNIX, socket.SOCK_STREAM, str(self.out / "sock")),
        }

    def _socket(self, family: int, kind: int, address: object) -> socket.socket:
        one = self._undoing.enter_context(socket.socket(family, kind))
        one.setblocking(False)
        one.bind(address)  # type: ignore[arg-type]  # of the family
        if kind == socket.SOCK_STREAM:
            one.listen(20)
        return one

    def _process(self, word: str) -> subprocess.Popen[bytes]:
        """Start a process that does nothing, with a word in its memory and environment."""
        process = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "SECRET": word})
        self._undoing.callback(process.wait)
        self._undoing.callback(process.kill)
        return process

    def was_reached(self, name: str) -> bool:
        """Tell whether a socket of the host has got a connection or a datagram; takes it."""
        one = self._sockets[name]
        try:
            if one.type == socket.SOCK_DGRAM:
                one.recv(100)
            else:
                one.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    @property
    def environ(self) -> Mapping[str, str]:
        """Return the variables of the user whose server it is."""
        top = self.top
        return {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(top / "s"),
            "XDG_RUNTIME_DIR": str(top / "r"),
            "XDG_CONFIG_HOME": str(top / "c"),
            "XDG_DATA_HOME": str(top / "d"),
            "XDG_CACHE_HOME": str(top / "k"),
            "JUPYTER_RUNTIME_DIR": str(top / "j"),
            "JUPYTER_PLATFORM_DIRS": "1",
            "TEST_API_KEY": self.secrets["env"],
            "SSH_AUTH_SOCK": str(self.out / "sock"),
        }

    def facts(self, home: "Site", connection: Path, sockets: list[str]) -> dict[str, object]:
        """Return what attempts know of the host, as an attacker who has seen it all would."""
        column = 1 if os.uname().machine == "aarch64" else 0
        calls = {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] is not None}
        variables = {
            "WS": str(self.ws),
            "OUT": str(self.out),
            "RUN": str(home.top / "s"),
            "CONNECTION": str(connection),
            "SSH": str(home.home / ".ssh/id"),
            "SHM": str(self.shm),
            "HOSTPID": str(self.victim.pid),
            "ABSTRACT": self.abstract,
        }
        ports = {name: self._sockets[name].getsockname()[1] for name in ("tcp", "udp")}
        return {"variables": variables, "calls": calls, "sockets": sockets, **ports}

    def files(self) -> set[str]:
        """Return every path below the workspace; a server may remove what it has left there meanwhile."""
        found = ((folder, name) for folder, *names in os.walk(self.ws) for name in itertools.chain(*names))
        return {os.path.relpath(os.path.join(folder, name), self.ws) for folder, name in found}

    def privileged(self) -> list[str]:
        """Return the set-uid and set-gid files of the workspace, and its devices."""
        return [path for path in self.files() if _is_privileged(self.ws / path)]

    def close(self) -> None:
        """End and remove all of it."""
        self._undoing.close()


def _is_privileged(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        return bool(mode & 0o6000) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
    return False


@contextlib.contextmanager
def site() -> Iterator[Site]:
    """A site meanwhile."""
    top = Path(tempfile.mkdtemp(prefix="xz-", dir=base_folder()))
    try:
        with contextlib.closing(Site(top)) as found:
            yield found
    finally:
        wait_until(lambda: _is_removed(top))


def _is_removed(top: Path) -> bool:
    """Remove a folder; a server may remove what it has left in a workspace at the same time."""
    shutil.rmtree(top, ignore_errors=True)
    return not top.exists()
