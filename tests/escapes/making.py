"""Make attempts through a real server and a client, and see on the host what came of them.

Owns a server and its home, and the site and command of each run, which has ended before it is judged.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from execzmq.types.params import ExecParams, NetworkMode, SandboxIntent
from execzmq.types.results import ExitResult
from tests.commands import all_events, end_of, output_of
from tests.escapes.attempts import HOST, MINIMAL, PLAIN, Answer, Attempt, Run
from tests.escapes.site import Site, site
from tests.servers import ServerProcess

SECONDS = 90.0
_DRIVER = Path(__file__).with_name("driver.py")
_PROFILES = {HOST: "open", MINIMAL: "minimal", PLAIN: "full-access"}
_LIBRARIES = os.environ.get("LD_LIBRARY_PATH")
_MOVED = ("/usr/bin/env", f"LD_LIBRARY_PATH={_LIBRARIES}") if _LIBRARIES else ()
"""A sandboxed command gets no such variable from its server; an interpreter that was moved needs it."""
PYTHON = (*_MOVED, os.path.realpath(sys.executable), "-I", "-S", "-u")
"""How Python is run in a sandbox, with its standard library alone."""


class Ended(NamedTuple):
    """How a command has ended: its output, its result, and what is told of its sandbox."""

    output: bytes
    result: ExitResult
    applied: dict[str, Any]


class Home(NamedTuple):
    """A server, the site at which its user is at home, and the server's sockets."""

    site: Site
    server: ServerProcess
    sockets: list[str]

    def wish(self, target: Site, mode: str, network: NetworkMode | None = None) -> SandboxIntent:
        """Return the wish for a sandbox with one base in the workspace of a site, or for none."""
        if mode == PLAIN:
            return SandboxIntent(_PROFILES[mode])
        return SandboxIntent(_PROFILES[mode], (os.fsencode(target.ws),), network=network)

    def run(self, wanted: ExecParams) -> Ended:
        """Run a command to its end."""
        return asyncio.run(self._run(wanted))

    async def _run(self, wanted: ExecParams) -> Ended:
        async with self.server.backend() as backend:
            process = await backend.start(wanted)
            events = await all_events(process, seconds=SECONDS)
            return Ended(output_of(events), end_of(events), (await process.info()).sandbox or {})


@contextlib.contextmanager
def at_home(*options: str) -> Iterator[Home]:
    """Have a server meanwhile, which was started with descriptors that it did not ask for."""
    with site() as found:
        server = server_at(found, *options)
        try:
            paths = sorted(str(path) for path in (found.top / "r").rglob("*") if path.is_socket())
            assert paths
            yield Home(found, server, paths)
        finally:
            server.close()


def server_at(found: Site, *options: str) -> ServerProcess:
    """Start a server of who is at home at a site."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.environ.items():
            patch.setenv(name, value)
        return ServerProcess("t", options, inherited=(found.fd, found.folder_fd))


def params(target: Site, wish: SandboxIntent | None, *argv: str, **more: Any) -> ExecParams:
    """Return the start of a command in the workspace of a site."""
    words = tuple(map(os.fsencode, argv))
    return ExecParams(words, **{"cwd": os.fsencode(target.ws), "sandbox": wish, **more})


@contextlib.contextmanager
def made(
    home: Home,
    attempts: Iterable[Attempt],
    mode: str,
    tty: bool,
    network: NetworkMode,
    **more: Any,
) -> Iterator[Run]:
    """Make those of the attempts that are made in such a run in one start; have what came of it meanwhile.

    Args:
        more: of the parameters of the start.
    """
    wanted = [one for one in attempts if one.is_made(mode)]
    with site() as target:
        _write_down(home, target, wanted)
        words = (*PYTHON, str(target.ws / "driver.py"), str(target.ws / "attempts.json"))
        start = params(target, home.wish(target, mode, network), *words, tty=tty, **more)
        ended = home.run(start)
        answers = dict(_answers(ended.output))
        missing = [one.number for one in wanted if one.number not in answers]
        assert not missing, f"not made: {missing}; {ended.output[-3000:]!r}"
        reached = {name for name in ("tcp", "udp", "abstract", "unix") if target.was_reached(name)}
        own = {name: home.site.secrets[name] for name in ("ssh", "env", "fd")}
        secrets = {**target.secrets, **own, "key": home.server.info.key}
        yield Run(mode, tty, target, secrets, ended.output, answers, ended.result, reached, ended.applied)


def _write_down(home: Home, target: Site, attempts: Iterable[Attempt]) -> None:
    facts = target.facts(home.site, home.server.state / "connection.json", home.sockets)
    shutil.copy(_DRIVER, target.ws / "driver.py")
    wanted = [[one.number, one.code] for one in attempts]
    (target.ws / "attempts.json").write_text(json.dumps([wanted, facts]))


def _answers(output: bytes) -> Iterator[tuple[str, Answer]]:
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith("@@"):
            found = json.loads(line[2:])
            yield found["number"], Answer(found["code"], found["text"])
