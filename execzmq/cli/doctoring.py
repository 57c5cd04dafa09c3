"""Own `doctor`: what may keep execzmq from working here, each with what to do about it."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from execzmq import connection, settings
from execzmq.cli import say
from execzmq.cli.options import json_option, on_option
from execzmq.cli.session import connected, go
from execzmq.cli.text import plain, printable, size
from execzmq.client.known import known
from execzmq.client.launch import LOG_NAME
from execzmq.errors import ConnectionFailed, ExecZMQError, InvalidRequest, PermissionRefused
from execzmq.types.finding import Finding

if TYPE_CHECKING:
    from execzmq.cli.session import Served

_FEW_DESCRIPTORS = 1024
_FEW_PROCESSES = 256
_LITTLE_DISK = 1 * settings.GIB
"""Bytes; a tenth of what is free may be used for output."""


@click.command("doctor", short_help="Check that execzmq can work here.")
@on_option
@json_option
def doctor_command(on: str | None, as_json: bool) -> int:
    """Check versions, folders, limits, server, keeper and sandboxes; say what to do about what is not well.

    The folders, the log and the keeper are those of the server that --on names.

    The exit status is 1 where something is not well.
    """
    return go(_doctor(on, as_json))


async def _doctor(on: str | None, as_json: bool) -> int:
    name = _name_of(on)
    server = await _server(on)
    findings = [*_here(name), *server, *(() if _has_answered(server) else _sandboxes(name))]
    if as_json:
        say.listing(json.dumps([plain(one) for one in findings], indent=2))
    else:
        for one in findings:
            say.listing(printable(f"{'ok ' if one.ok else 'BAD'}  {one.name}: {one.text}"))
            if not one.ok and one.remedy:
                say.listing(printable(f"     -> {one.remedy}"))
    return 0 if all(one.ok for one in findings) else 1


def _has_answered(server: list[Finding]) -> bool:
    return len(server) > 1


def _sandboxes(name: str) -> list[Finding]:
    """Try a sandbox here, where there is no server that could."""
    from execzmq.backends.trying import findings

    return findings(connection.state_folder(name))


def _name_of(on: str | None) -> str:
    """Return the name of the server here that is looked at: the one meant, else the default one."""
    if on is None or not {"/", "."} & set(on):
        return _server_here(on or settings.DEFAULT_NAME) or settings.DEFAULT_NAME
    path = Path(on).absolute()
    if path.parent.parent == connection.state_folder(settings.DEFAULT_NAME).parent:
        return path.parent.name
    is_jupyters = path.parent == connection.jupyter_runtime_folder() and path.name.startswith("execzmq-")
    return path.stem.removeprefix("execzmq-") if is_jupyters else settings.DEFAULT_NAME


def _server_here(name: str) -> str | None:
    """Return the name of the server here that a name means, `None` where that is elsewhere."""
    from execzmq.environments.model import OwnServer
    from execzmq.environments.store import find_environment

    try:
        environment = find_environment(name)
    except ExecZMQError:  # told by who looks for the server
        return None
    if environment is None:
        return name
    return environment.place.name if isinstance(environment.place, OwnServer) else None


def _here(name: str) -> Iterator[Finding]:
    yield _versions()
    yield _system()
    state = connection.state_folder(name)
    yield _folder("state folder", state)
    yield _disk(state)
    yield _log(state)
    yield _keeper(state)
    yield _sockets(name)
    yield _folder("connection files", connection.jupyter_runtime_folder())
    yield _limit("open files", resource.RLIMIT_NOFILE, _FEW_DESCRIPTORS, "ulimit -n")
    yield _limit("processes", resource.RLIMIT_NPROC, _FEW_PROCESSES, "ulimit -u")
    yield _terminals()
    yield _environments()
    yield from (
        Finding("connection file", False, one.problem, f"remove {one.path}, or make it yours alone")
        for one in known()
        if one.info is None
    )


def _versions() -> Finding:
    import zmq

    found = {
        "execzmq": settings.VERSION,
        "Python": platform.python_version(),
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
        "msgpack": _version_of("msgpack"),
        "click": _version_of("click"),
    }
    return Finding("versions", True, ", ".join(f"{name} {version}" for name, version in found.items()))


def _version_of(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _system() -> Finding:
    text = f"{platform.system()} {platform.release()}, {sys.executable}"
    if not hasattr(os, "pidfd_open"):
        return Finding("system", False, f"{text}, without pidfds", "use Linux 5.3 or newer")
    return Finding("system", True, text)


def _folder(name: str, path: Path) -> Finding:
    present = next(folder for folder in (path, *path.parents) if folder.exists())
    status = present.stat()
    text = str(path) if present == path else f"{path} (to be made)"
    if not present.is_dir():
        return Finding(name, False, f"{present} is no folder", f"remove {present}")
    if not os.access(present, os.W_OK | os.X_OK):
        return Finding(name, False, f"{present} cannot be written", f"make {present} writable for you")
    if present == path and status.st_uid != os.getuid():
        return Finding(
            name, False, f"{path} belongs to user {status.st_uid}", "have it removed or given to you"
        )
    mode = stat.S_IMODE(status.st_mode)
    if present == path and mode & 0o022:
        return Finding(name, False, f"{path} can be written by others ({mode:o})", f"chmod go-w {path}")
    return Finding(name, True, f"{text}, mode {mode:o}" if present == path else text)


def _disk(state: Path) -> Finding:
    present = next(folder for folder in (state, *state.parents) if folder.exists())
    free = shutil.disk_usage(present).free
    remedy = "make room, or let XDG_STATE_HOME lead elsewhere: a tenth of it may be used for output"
    return Finding("disk", free >= _LITTLE_DISK, f"{size(free)} free at {present}", remedy)


def _log(state: Path) -> Finding:
    log = state / LOG_NAME
    text = (
        f"{log}"
        if log.exists()
        else f"none in {state}; a server in the foreground or a service logs to its stderr"
    )
    return Finding("log", True, text)


def _keeper(state: Path) -> Finding:
    """Tell who holds the server's commands; whoever listens in the state folder is that."""
    from execzmq.keeper.listener import connect

    try:
        with connect(os.fsencode(state)) as link:
            pid, _, _ = struct.unpack("iII", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except FileNotFoundError:
        return Finding("keeper", True, "none runs")
    except ConnectionRefusedError:
        remedy = "start the server again: it says what is known of the commands that were left"
        return Finding("keeper", False, "it has died without the end of its commands being known", remedy)
    except OSError as error:
        return Finding("keeper", False, f"it cannot be reached: {error.strerror}", "see the server's log")
    return Finding("keeper", True, f"alive (pid {pid})")


def _sockets(name: str) -> Finding:
    folder = connection.socket_folder(name)
    found = _folder("sockets", folder)
    if found.ok and not os.environ.get("XDG_RUNTIME_DIR"):
        return Finding("sockets", True, f"{found.text} (XDG_RUNTIME_DIR is not set)")
    return found


def _limit(name: str, which: int, few: int, command: str) -> Finding:
    soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY:
        return Finding(name, True, "no limit")
    most = "no limit" if hard == resource.RLIM_INFINITY else str(hard)
    return Finding(name, soft >= few, f"at most {soft} (can be raised to {most})", f"raise it: {command}")


def _terminals() -> Finding:
    try:
        for fd in os.openpty():
            os.close(fd)
    except OSError as error:
        return Finding("terminals", False, f"none to be had: {error.strerror}", "mount /dev/pts")
    return Finding("terminals", True, "can be made")


def _environments() -> Finding:
    from execzmq.environments.store import known as known_environments

    try:
        found = known_environments()
    except InvalidRequest as error:
        remedy = "correct it; until then --on takes only default, and paths of connection files"
        return Finding("environments", False, str(error), remedy)
    names = ", ".join(found.environments)
    left = f"; {found.untrusted} is not trusted, so not read" if found.untrusted else ""
    return Finding("environments", True, f"{names}{left}")


async def _server(on: str | None) -> list[Finding]:
    try:
        async with connected(on) as backend:
            about = await backend.server_info()
            told = await _findings_of(backend)
    except ConnectionFailed as error:
        if on is None and not _has_file():
            return [Finding("server", True, "none runs; it is started on first use")]
        return [Finding("server", False, str(error), _look_into(on))]
    except ExecZMQError as error:
        return [Finding("server", False, str(error), _look_into(on))]
    alive = Finding("server", True, f"{about.name} is alive (pid {about.pid}, version {about.version})")
    if about.version != settings.VERSION:
        remedy = "end it with `execzmq shutdown`; the next start brings the new version"
        alive = Finding("server", False, f"version {about.version} runs, this is {settings.VERSION}", remedy)
    return [alive, *map(_told, told)]


async def _findings_of(backend: Served) -> list[dict[str, object]]:
    try:
        return await backend.doctor()
    except PermissionRefused as error:  # by a share one may use the server, and not look at it
        return [{"name": "findings", "ok": True, "text": str(error)}]


def _has_file() -> bool:
    return (connection.state_folder(settings.DEFAULT_NAME) / "connection.json").exists()


def _look_into(on: str | None) -> str:
    try:
        name = _server_here(on or settings.DEFAULT_NAME)
        return f"see {connection.state_folder(name) / LOG_NAME}" if name else "see `execzmq environments`"
    except ExecZMQError:
        return "see `execzmq connections`"


def _told(finding: dict[str, object]) -> Finding:
    return Finding(
        f"server: {finding.get('name', '')}",
        bool(finding.get("ok")),
        str(finding.get("text", "")),
        str(finding.get("remedy") or ""),
    )
