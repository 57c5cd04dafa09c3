"""A small stand-in for the keeper: a subreaper that spawns commands and reaps whatever ends below it.

Children talk to the test over the reaper's stdout, which they inherit.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from execzmq.process.census import Scope
from execzmq.process.environ import MARK_NAME
from tests.support import child, deadline

_CODE = """
import ctypes, json, os, select, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
line = b""
while True:
    if select.select([0], [], [], 0.005)[0]:
        data = os.read(0, 65536)
        if not data:
            break
        line += data
    while b"\\n" in line:
        request, _, line = line.partition(b"\\n")
        argv, env = json.loads(request)
        pid = os.posix_spawnp(argv[0], argv, env, setsid=True)
        os.write(1, b"spawned %d\\n" % pid)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""


@dataclass(slots=True)
class Reaper:
    """The running stand-in. `said` holds the lines that were read and not yet asked for."""

    process: "subprocess.Popen[bytes]"
    scopes: list[Scope] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _rest: bytes = b""

    @property
    def pid(self) -> int:
        """Return the pid that the scanner is to know as the keeper's."""
        return self.process.pid

    def spawn(
        self, argv: Sequence[str], *, mark: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> Scope:
        """Start a command in its own session and return its scope."""
        variables = dict(os.environ if env is None else env)
        if mark is not None:
            variables[MARK_NAME.decode()] = mark.decode()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([list(argv), variables]).encode() + b"\n")
        self.process.stdin.flush()
        pid = int(self.wait_for("spawned"))
        scope = Scope(pid, pidfd=_open_pidfd(pid), mark=mark)
        self.scopes.append(scope)
        return scope

    def wait_for(self, word: str) -> str:
        """Return the rest of the next line that begins with `word`."""
        limit = deadline(20)
        while True:
            for line in self.said:
                if line.split(" ")[0] == word:
                    self.said.remove(line)
                    return line.partition(" ")[2]
            self._read(limit.left())

    def close(self) -> None:
        """End the stand-in and close what belongs to it."""
        for scope in self.scopes:
            if scope.pidfd is not None:
                os.close(scope.pidfd)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    def _read(self, seconds: float) -> None:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        select.select([fd], [], [], seconds)
        data = os.read(fd, 65536)
        if not data:
            raise EOFError("the reaper has ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.said += [line.decode() for line in lines]


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def start_reaper(pass_fds: Sequence[int] = ()) -> Reaper:
    """Start the stand-in; its commands inherit `pass_fds`."""
    argv = child(_CODE)
    pipe = subprocess.PIPE
    return Reaper(subprocess.Popen(argv, stdin=pipe, stdout=pipe, pass_fds=pass_fds, start_new_session=True))


def python(code: str) -> list[str]:
    """Return the argv of a child that runs `code` with `os`, `signal`, `time` and `say` at hand."""
    return [sys.executable, "-S", "-u", "-c", _PREAMBLE + code]


_PREAMBLE = """
import os, signal, time
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
