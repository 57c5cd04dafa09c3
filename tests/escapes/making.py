"""Make attempts through a real server and a client, and see on the host what came of them.

Owns the site, the server and the command of one run; all are ended before what came of it is judged.
"""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from execzmq import connection
from execzmq.client.remote import RemoteBackend
from execzmq.types.params import ExecParams, SandboxIntent
from execzmq.types.results import ExitResult
from tests.commands import all_events, end_of, output_of
from tests.escapes.attempts import PLAIN, Answer, Attempt, Run
from tests.escapes.site import Site, site
from tests.servers import ServerProcess

SECONDS = 90.0
PYTHON = os.path.realpath(sys.executable)
_DRIVER = Path(__file__).with_name("driver.py")
_PROFILES = {"host": "open", "minimal": "minimal", PLAIN: "full-access"}


@contextlib.contextmanager
def serving_at(found: Site, *options: str) -> Iterator[ServerProcess]:
    """Run a server of the site's user meanwhile, with descriptors that it did not ask for."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.environ.items():
            patch.setenv(name, value)
        server = ServerProcess("t", options, inherited=(found.fd, found.folder_fd))
        try:
            yield server
        finally:
            server.close()


def intent(found: Site, mode: str, network: str | None = None) -> SandboxIntent:
    """Return the wish for a sandbox with one base, or for none."""
    if mode == PLAIN:
        return SandboxIntent(_PROFILES[mode])
    return SandboxIntent(_PROFILES[mode], (os.fsencode(found.ws),), network=network)  # type: ignore[arg-type]  # one


def params(found: Site, wish: SandboxIntent, *argv: str, **more: Any) -> ExecParams:
    """Return the start of a command in the workspace."""
    words = tuple(map(os.fsencode, argv))
    return ExecParams(words, **{"cwd": os.fsencode(found.ws), "sandbox": wish, **more})


async def ended(backend: RemoteBackend, wanted: ExecParams) -> tuple[bytes, ExitResult, dict[str, Any]]:
    """Run a command to its end; return its output, its result, and what is told of its sandbox."""
    process = await backend.start(wanted)
    events = await all_events(process, seconds=SECONDS)
    return output_of(events), end_of(events), (await process.info()).sandbox or {}


def make(
    attempts: Iterable[Attempt],
    mode: str,
    tty: bool,
    network: str | None = None,
    change: Mapping[str, Any] | None = None,
) -> contextlib.AbstractContextManager[Run]:
    """Make those of the attempts that are made in such a run in one start; have what came of it meanwhile.

    Args:
        change: of the parameters of the start.
    """
    return _made([one for one in attempts if one.is_made(mode)], mode, tty, network, change or {})


@contextlib.contextmanager
def _made(
    attempts: list[Attempt], mode: str, tty: bool, network: str | None, change: Mapping[str, Any]
) -> Iterator[Run]:
    with site() as found:
        with serving_at(found) as server:
            _write_down(found, attempts, server)
            wish = intent(found, mode, network)
            words = (PYTHON, "-I", "-S", "-u", str(found.ws / "driver.py"), str(found.ws / "attempts.json"))
            wanted = params(found, wish, *words, tty=tty, **change)
            key = server.info.key
            output, result, applied = asyncio.run(_run(server, wanted))
        answers = dict(_answers(output))
        missing = [one.number for one in attempts if one.number not in answers]
        assert not missing, f"not made: {missing}; {output[-3000:]!r}"
        reached = {name for name in ("tcp", "udp", "abstract", "unix") if found.was_reached(name)}
        yield Run(mode, tty, found, key, output, answers, result, reached, applied)


async def _run(server: ServerProcess, wanted: ExecParams) -> tuple[bytes, ExitResult, dict[str, Any]]:
    async with server.backend() as backend:
        return await ended(backend, wanted)


def _write_down(found: Site, attempts: Iterable[Attempt], server: ServerProcess) -> None:
    folder = connection.socket_folder(server.name)
    sockets = sorted(str(path) for path in folder.iterdir() if path.is_socket())
    assert sockets
    facts = found.facts(server.state / "connection.json", sockets)
    shutil.copy(_DRIVER, found.ws / "driver.py")
    wanted = [[one.number, one.code] for one in attempts]
    (found.ws / "attempts.json").write_text(json.dumps([wanted, facts]))


def _answers(output: bytes) -> Iterator[tuple[str, Answer]]:
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith("@@"):
            found = json.loads(line[2:])
            yield found["number"], Answer(found["code"], found["text"])
