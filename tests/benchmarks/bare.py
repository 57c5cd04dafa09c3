"""Own the peer of a sandboxed start: the same bubblewrap with the same arguments, by plain subprocess."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from execzmq.backends.sweeping import Sweeper
from execzmq.sandbox import seccomp
from execzmq.sandbox.bwrap import encoded

_BINDS = (b"--bind-fd", b"--ro-bind-fd")


def first_byte(explained: dict[str, Any]) -> float:
    """Run what a start would become to its end; return the seconds until the first byte of its output.

    Args:
        explained: as `explain` of a backend returns it.
    """
    with ExitStack() as stack:

        def owned(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        # As for each start of ours, nobody removes the folders that it mounts upon.
        owned(Sweeper(Path(), lambda work: work.close()).starting(waits=True))
        begin = time.perf_counter()
        arguments, sources = list(explained["arguments"]), []
        for at in (at for at, word in enumerate(arguments) if word in _BINDS):
            sources.append(owned(os.open(arguments[at + 2], os.O_PATH)))
            arguments[at + 1] = b"%d" % sources[-1]
        gate, opener = map(owned, os.pipe())
        os.write(opener, b"x")
        _, told = map(owned, os.pipe())
        numbers = {
            b"--args": owned(_memory(encoded(arguments))),
            b"--seccomp": owned(_memory(seccomp.program(allow_debug=False))),
            b"--json-status-fd": told,
            b"--block-fd": gate,
        }
        with subprocess.Popen(
            _renumbered(list(explained["argv"]), numbers),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*sources, *numbers.values()],
        ) as process:
            assert process.stdout is not None
            assert os.read(process.stdout.fileno(), 1)
            return time.perf_counter() - begin


def _renumbered(argv: list[bytes], numbers: dict[bytes, int]) -> list[bytes]:
    for option, number in numbers.items():
        argv[argv.index(option) + 1] = b"%d" % number
    return argv


def _memory(data: bytes) -> int:
    fd = os.memfd_create("bare")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
